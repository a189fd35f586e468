// Invented helpers.
json format_error_response(const std::string & message, const enum error_type type) {
    std::string type_str;
    int code = 500;
    switch (type) {
        case ERROR_TYPE_INVALID_REQUEST:
            type_str = "invalid_request_error";
            code = 400;
            break;
        case ERROR_TYPE_SERVER:
            type_str = "server_error";
            code = 500;
            break;
    }
    return json {
        {"code", code},
        {"message", message},
        {"type", type_str},
    };
}

template <typename T>
void kettle<T>::fill(const json & body) {
    std::string err;
    if (json_value(body, "level", 0) > limits["kettle"]) {
        err = "too full";
    } else {
        err = string_format("only %d of %s", level, name.c_str());
    }
    if (body.count("lid") && body["lid"].is_object()) {
        body["lid"]["open"] = true;
    }
    throw std::runtime_error(err);
}
