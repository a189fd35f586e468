// Invented handlers.
void server_routes::init_routes() {
    this->post_pour = [this](const server_http_req & req) {
        const json body = json::parse(req.body);
        if (!body.contains("cup")) {
            res->error(format_error_response("\"cup\" must be provided", ERROR_TYPE_INVALID_REQUEST));
            return res;
        }
        const int n = body.at("n").get<int>();
        if (req.get_param("quick").empty()) {
            send_error(task, std::string("got exception: ") + e.what(), ERROR_TYPE_SERVER);
        }
        res->ok({{ "poured", body.value("n", 1) }});
        return res;
    };
}
