// Invented options of a tea server.
static std::initializer_list<enum llama_example> saucer_examples = {
    LLAMA_EXAMPLE_SERVER,
    LLAMA_EXAMPLE_CLI,
};

[[noreturn]] static void arg_removed(const std::string & msg) {
    throw std::invalid_argument("this option is gone. " + msg);
}

common_params_context common_params_parser_init(common_params & params, llama_example ex) {
    if (ex == LLAMA_EXAMPLE_CLI) {
        params.port = 0;
    } else if (ex == LLAMA_EXAMPLE_SERVER) {
        params.n_parallel = -1;
    }

    auto add_opt = [&](common_arg arg) { keep(arg); };

    add_opt(common_arg(
        {"-h", "--help"},
        "say what there is",
        [](common_params & params) {
            exit(0);
        }
    ));
    add_opt(common_arg(
        {"-n", "--n-predict"}, "N",
        string_format(ex == LLAMA_EXAMPLE_CLI ? "cups (default: %d, cli)" : "cups to pour (default: %d, -1 = all)", params.n_predict),
        [](common_params & params, int value) {
            params.n_predict = value;
        }
    ).set_env("TEA_N_PREDICT"));
    add_opt(common_arg(
        {"--temp"}, "N",
        string_format("how hot, long enough a text that it is wrapped over two lines (default: %.2f)", (double) params.sampling.temp),
        [](common_params & params, const std::string & value) {
            params.sampling.temp = std::stof(value);
            if (params.sampling.temp > 9.0f) {
                throw std::invalid_argument(string_format("too hot: %s, 100%% steam\n", value.c_str()));
            }
        }
    ).set_sampling());
    add_opt(common_arg(
        {"-s", "--seed"}, "SEED",
        string_format("grain (default: %d, any for %d)", params.sampling.seed, LLAMA_DEFAULT_SEED),
        [](common_params & params, const std::string & value) {
            params.sampling.seed = std::stoul(value);
        }
    ).set_sampling());
    add_opt(common_arg(
        {"--leaf-kind"}, all_leaf_kinds(),
        string_format("leaf for %s (default: %s)", "tea", leaf_name(params.mode)),
        [](common_params & params, const std::string & value) {
            params.notes["leaf"] = value;
            params.mode = leaf_from(value);
        }
    ).set_spec().set_env("TEA_LEAF"));
    add_opt(common_arg(
        {"--old-pot"}, "N",
        "this option is gone",
        [](common_params & params, int value) {
            arg_removed("use --pot");
        }
    ).set_spec());
    add_opt(common_arg(
        {"--pair"}, "CUP", "SAUCER",
        "a cup and its saucer",
        [](common_params & params, const std::string & cup, const std::string & saucer) {
            params.notes.insert({cup, saucer});
        }
    ));
    add_opt(common_arg(
        {"--prompt"}, "P",
        "not for servers",
        [](common_params & params, const std::string & value) { use(value); }
    ).set_excludes({LLAMA_EXAMPLE_SERVER}));
    add_opt(common_arg(
        {"--drum"},
        "only for the drum",
        [](common_params & params) { beat(); }
    ).set_examples({LLAMA_EXAMPLE_DRUM}));
    add_opt(common_arg(
        {"-sc", "--saucer"},
        {"-nsc", "--no-saucer"},
        string_format("put a saucer under it (default: %s)", params.no_saucer ? "disabled" : "enabled"),
        [](common_params & params, bool value) {
            params.no_saucer = !value;
        }
    ).set_examples(saucer_examples).set_env("LLAMA_ARG_SAUCER"));
    if (ex == LLAMA_EXAMPLE_SERVER) {
        add_opt(common_arg(
            {"-np", "--parallel"}, "N",
            string_format("pots (default: %d)", params.n_parallel),
            [](common_params & params, int value) {
                params.n_parallel = value;
            }
        ).set_examples({LLAMA_EXAMPLE_SERVER}));
    } else {
        add_opt(common_arg(
            {"-np", "--parallel"}, "N",
            "sequences",
            [](common_params & params, int value) {
                params.n_parallel = value;
            }
        ));
    }
    if (has_remote_kitchen()) {
        add_opt(common_arg(
            {"--kitchen"}, "HOST",
            "where the kitchen is",
            [](common_params & params, const std::string & value) { dial(value); }
        ));
    }
    add_opt(common_arg(
        {"--host", "--a-rather-long-spelling-of-it"}, "ADDRESS",
        string_format("address (default: %s)", params.hostname.c_str()),
        [](common_params & params, const std::string & value) {
            params.hostname = value;
        }
    ).set_examples({LLAMA_EXAMPLE_SERVER}));
    return ctx_arg;
}

void common_params_add_preset_options(std::vector<common_arg> & args) {
    args.push_back(common_arg(
        {"kettle"}, "NAME",
        "only in presets",
        [](common_params &, const std::string &) { }
    ).set_env(PRESET_KETTLE).set_preset_only());
}
