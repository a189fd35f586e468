// An invented schema of a tea server's requests.
std::vector<std::unique_ptr<field>> make_tea_schema(const common_params & params_base, task_params & params) {
    auto add = [&](field * f) { fields.emplace_back(f); };

    add((new field_bool("stream", params.stream))
        ->set_desc("pour while it brews"));

    add((new field_bool("verbose", params.verbose)));

    add((new field_nested("stream_options"))
        ->add_subfield((new field_bool("with_milk", params.with_milk))
            ->set_desc("count the milk"))
        ->set_desc("how it is poured"));

    add((new field_num("n_predict", params.n_predict))
        ->set_hard_limits(-1, INT32_MAX)
        ->add_alias("max_tokens") // the newer name
        ->set_desc("how much is poured"));

    add((new field_num("n_cups", params.n_cups))
        ->set_hard_limits(1, params_base.n_parallel)
        ->set_desc("how many cups"));

    add((new field_num("t_limit", params.t_limit))
        ->set_desc("how long"));

    add((new field_num("temperature", params.sampling.temp))
        ->set_limits(0.0f, std::numeric_limits<float>::infinity())
        ->set_desc("how hot"));

#if 0
    add((new field_num("spec.n_leaves", params.n_leaves))
        ->set_desc("leaves that are guessed; a bracket is missing here");

    add((new field_str("spec.kind"))
        ->set_handler([&](field_eval_context & ctx, const json & data) {
            ctx.kind = data.at("spec.kind").get<std::string>();
        }));
#endif

    add((new field_json("spoons"))
        ->add_alias("spoon")
        ->set_desc("a list of " "spoons")
        ->set_handler([&](field_eval_context & ctx, const json & data) {
            for (const auto & t : data.at("spoons")) {
                ctx.add(json_value(t, "size", 1.5f), t["sugar"].get<int>());
            }
            if (ctx.spoons.empty()) {
                throw std::runtime_error("Error: 'spoons' must not be empty");
            }
        }));

    return fields;
}

task_params eval_tea_schema(const common_params & params_base, const json & data) {
    task_params params;
    params.sampling  = params_base.sampling;
    params.n_predict = params_base.n_predict;
    params.verbose   = params_base.port > 9;
    return params;
}
