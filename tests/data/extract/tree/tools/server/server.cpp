// An invented server of tea.
int llama_server(common_params & params, int argc, char ** argv) {
    server_http_context ctx_http;
    if (!ctx_http.init(params)) {
        return 1;
    }
    if (is_router_server) {
        routes.post_pour = kitchens->proxy_post;

        ctx_http.del ("/pots", ex_wrapper(kitchens->del_pots));
    }

    ctx_http.get ("/health", ex_wrapper(routes.get_health)); // public
    ctx_http.post("/pour",   ex_wrapper(routes.post_pour));

    server_http_context::handler_t steam_h;
    if (is_router_server) {
        steam_h = kitchens->steam;
    } else {
        steam_h = make_steam_handler();
    }
    ctx_http.get ("/v1/steam", ex_wrapper(steam_h));

    ctx_http.register_gcp_compat();

    if (params.milk) {
        ctx_http.get ("/milk", ex_wrapper(milk_get));
    } else {
        ctx_http.get ("/milk", ex_wrapper(res_403));
    }

    clean_up = [&ctx_http]() {
        ctx_http.stop();
    };
    return 0;
}
