// Invented settings of a tea server.
#pragma once

enum brew_mode { BREW_MODE_SLOW, BREW_MODE_FAST };

struct common_params_sampling {
    uint32_t seed  = LLAMA_DEFAULT_SEED;
    int32_t  top_k = 40;   /* leaves that are looked at */
    float    temp  = 0.80f;
    std::vector<std::string> breakers = {"\n", ":"};
    bool lazy = false;
};

struct common_params {
    int32_t n_predict  = -1, n_steep = 3;
    int32_t n_parallel = 1;
    int32_t port       = 8080;
    int32_t timeout_r  = 60;
    int32_t timeout_w  = timeout_r;
    float   shares[4]  = {0};
    bool    no_saucer  = false;
    brew_mode mode     = BREW_MODE_SLOW;
    std::string hostname = "127.0.0.1";
    std::string public_path = "";
    std::map<std::string, std::string> notes;

    struct common_params_sampling sampling;

    bool warm() const { return port > 0; }
};
