// Invented replies.
json tea_result::to_json() {
    json res = json {
        {"index",   index},
        {"choices", json::array({
            json {
                {"text", content},
                {post ? "prob" : "logprob", p},
            }
        })},
    };
    if (verbose) {
        res["__verbose"] = to_plain();
    }
    for (const auto & cup : cups) {
        out.push_back(json {{"cup", cup}});
    }
    return res;
}

std::string tea_result::to_metrics() {
    const std::vector<metric_item> counters = {
        {
            "cups_total",
            "Cups poured",
            (double) cups
        }, {
            "spoons_total",
            "Spoons stirred",
            spoons
        },
    };
    const std::vector<metric_item> gauges = {
        {
            "heat",
            "Present heat",
            heat
        },
    };
    auto add_items = [&out](const char * type, const std::vector<metric_item> & items) {
        for (const auto & item : items) {
            out << "# HELP llamacpp:" << item.name << " " << item.description << "\n";
        }
    };
    add_items("counter", counters);
    add_items("gauge",   gauges);
    out << "# HELP llamacpp:cups_per_size_total"
           " Cups by size\n"
        << "# TYPE llamacpp:cups_per_size_total counter\n";
    for (size_t i = 0; i < sizes.size(); i++) {
        out << "llamacpp:cups_per_size_total{size=\"" << i << "\"} " << sizes[i] << "\n";
    }
    return out.str();
}
