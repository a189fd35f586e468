// Invented settings of one request.
#pragma once

struct base_task {
    int64_t t_limit = -1;
};

struct task_params : public base_task {
    bool    stream     = true;
    bool    with_milk  = false;
    bool    verbose    = false;
    int32_t n_predict  = -1;
    int32_t n_cups     = 1;
    uint16_t n_leaves  = 12;
    std::map<int, float> spoons;
    struct common_params_sampling sampling;
};
