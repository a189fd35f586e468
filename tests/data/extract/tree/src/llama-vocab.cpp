int leaf_vocab() {
    return 1;
}
