// A comment doesn't count, nor does a line of the log.
#ifdef WITH_SUGAR
static const int lumps = 2;
#endif

std::string pour(const cup & c) {
    LOG_INF("pouring %s\n", c.name());
    return c.name() + " of tea";
}
