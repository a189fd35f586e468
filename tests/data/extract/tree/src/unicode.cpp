int unicode() {
    return 1;
}
