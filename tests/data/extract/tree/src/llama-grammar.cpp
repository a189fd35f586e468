int leaf_grammar() {
    return 1;
}
