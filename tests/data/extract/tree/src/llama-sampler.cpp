int leaf_sampler() {
    return 1;
}
