"""Every route that llama-server registers, in order, with what decides which handler answers."""

from __future__ import annotations

import re
from typing import Any

from codegen.extract.cpp import Source, literal, spell
from codegen.extract.functions import bodies_sha256
from codegen.extract.scopes import Function, conditions, functions, owner
from codegen.extract.tree import Tree

SERVER = "tools/server/server.cpp"
HTTP = "tools/server/server-http.cpp"
CONTEXT = "ctx_http"
ROUTER = "is_router_server"

METHODS = {"get": "GET", "post": "POST", "del": "DELETE"}
_OTHER_MEMBERS = frozenset((
    "init", "start", "stop", "join", "is_ready", "thread", "register_gcp_compat",
    "listening_address", "listening_addresses", "port", "hostname",
))  # fmt: skip


def extract_routes(tree: Tree) -> dict[str, Any]:
    """`routes.json`; everything that isn't understood becomes a problem of the tree."""
    registered, registrations = _Registered(tree).routes()
    vertex = _vertex(tree)
    mounts, assets = _static(tree)
    routes = [*registered, *vertex, *mounts]
    public, frontend = _public(tree)
    bodies = bodies_sha256(tree)
    for order, route in enumerate(routes):
        route["order"] = order
        route["public"] = route["path"] in public
        route["handler_text_sha256"] = bodies.get(re.split(r"\W+", route["handler"])[-1])
    return {
        "counts": {
            "registrations": registrations,
            "registered": len(registered),
            "registered_is": "registrations, one method and path counted once",
            "vertex": len(vertex),
            "static_mounts": len(mounts),
            "total": len(routes),
            "total_is": "registered + vertex + static_mounts",
        },
        "public_paths": public,
        "frontend_paths": frontend,
        "asset_paths": assets,
        "routes": routes,
    }


class _Registered:
    """Routes of server.cpp, registered on `ctx_http`."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.source = tree.source(SERVER).live
        self.functions = functions(self.source)

    def routes(self) -> tuple[list[dict[str, Any]], int]:
        """The routes, and how many registrations they come from."""
        routes: dict[tuple[str, str], dict[str, Any]] = {}
        count = 0
        for i in self.source.find(CONTEXT, "."):
            word = self.source.text(i + 2)
            if word in METHODS and self.source.text(i + 3) == "(":
                count += 1
                found = self._registration(i)
                if found is not None:
                    method, path, variant = found
                    route = routes.setdefault(
                        (method, path), {"method": method, "path": path, "variants": []}
                    )
                    if variant["when"] in [earlier["when"] for earlier in route["variants"]]:
                        self.tree.problem(self.source, i, "a route is registered twice")
                    route["variants"].append(variant)
            elif word not in _OTHER_MEMBERS:
                self.tree.problem(self.source, i, f"unknown use of {CONTEXT}")
        for i in self.source.find(CONTEXT):
            if self.source.text(i - 1) in ("(", ",") and self.source.text(i + 1) in (")", ","):
                message = f"{CONTEXT} is passed on, so routes may be registered elsewhere"
                self.tree.problem(self.source, i, message)
        if not routes:
            self.tree.missing(SERVER, f"no route is registered on {CONTEXT}")
        return [self._route(*key, route["variants"]) for key, route in routes.items()], count

    def _registration(self, i: int) -> tuple[str, str, dict[str, Any]] | None:
        source = self.source
        method = METHODS[source.text(i + 2)]
        close = source.close(i + 3)
        parts = source.split(i + 4, close)
        path = literal(source.slice(*parts[0])) if len(parts) == 2 else None
        wrapped = len(parts) == 2 and source.matches(parts[1][0], "ex_wrapper", "(")
        function = owner(self.functions, i)
        if path is None or not wrapped or function is None or source.text(close + 1) != ";":
            self.tree.problem(source, i, "unreadable registration of a route")
            return None
        handler = spell(source.slice(parts[1][0] + 2, parts[1][1] - 1))
        when = conditions(source, function, i)
        if any(text.endswith("{") or text.startswith(("for ", "while ")) for text in when):
            self.tree.problem(source, i, "a route is registered in a block that is no if")
        return method, path, {"when": when, "handler": handler}

    def _route(self, method: str, path: str, variants: list[dict[str, Any]]) -> dict[str, Any]:
        """One route; its variants are the handlers that answer under different settings."""
        resolved = []
        for variant in variants:
            name = variant["handler"]
            local = self._assigned(name)
            router = local.get(ROUTER)
            resolved.append({
                "when": variant["when"],
                "handler": local.get(f"!({ROUTER})", name).removeprefix("routes."),
                "router_handler": router,
            })  # fmt: skip
        first = resolved[0]
        router_only = all(ROUTER in variant["when"] for variant in resolved)
        several = len(resolved) > 1
        return _entry(
            method,
            path,
            SERVER,
            first["handler"],
            router_handler=first["handler"] if router_only else first["router_handler"],
            router_only=router_only,
            when=[] if several else first["when"],
            variants=resolved if several else [],
        )

    def _assigned(self, name: str) -> dict[str, str]:
        """What `name` is set to in the same function, by the condition it is set under."""
        found = {}
        words = name.replace(".", " . ").split()
        for i in self.source.find(*words, "="):
            function = owner(self.functions, i)
            if function is None or self.source.text(i - 1) not in (";", "{", "}"):
                continue
            end = next(self.source.find(";", start=i))
            value = self.source.slice(i + len(words) + 1, end)
            when = conditions(self.source, function, i)
            if when and value and value[0].text != "[":
                found[" && ".join(when)] = spell(value)
        return found


def _vertex(tree: Tree) -> list[dict[str, Any]]:
    """Routes of the Vertex AI protocol: their paths come from environment variables."""
    source = tree.source(HTTP).live
    found = functions(source)
    register = _one(found, "server_http_context::register_gcp_compat")
    settings = _one(found, "gcp_params::gcp_params")
    if register is None or settings is None:
        tree.missing(HTTP, "register_gcp_compat() or gcp_params() isn't there")
        return []
    variables = _environment(source, settings)
    routes = []
    for i in range(register.start, register.end):
        word = source.text(i)
        before = source.text(i - 1)
        if word not in METHODS or source.text(i + 1) != "(" or before not in (";", "{", "}"):
            continue
        _, end = source.split(i + 2, source.close(i + 1))[0]
        name = source.text(end - 1)
        if name not in variables:
            tree.problem(source, i, "unreadable registration of a Vertex AI route")
            continue
        variable, default = variables[name]
        when = [f"AIP_MODE == {variables['enabled'][2]}"] if "enabled" in variables else []
        if conditions(source, register, i):
            when.append(f"{variable} is set")
        handler = _vertex_handler(source, register, i)
        path = default or None
        entry = _entry(METHODS[word], path, HTTP, handler, variable=variable, when=when)
        routes.append(entry)
    return routes


def _entry(
    method: str,
    path: str | None,
    source: str,
    handler: str,
    *,
    variable: str | None = None,
    router_handler: str | None = None,
    router_only: bool = False,
    when: list[str],
    variants: list[dict[str, Any]] | None = None,
) -> dict[str, Any]:
    """One route; `order` and `public` are filled in when all routes are known."""
    return {
        "order": 0,
        "method": method,
        "path": path,
        "path_variable": variable,
        "source": source,
        "handler": handler,
        "router_handler": router_handler,
        "router_only": router_only,
        "public": False,
        "when": when,
        "variants": variants or [],
    }


def _vertex_handler(source: Source, register: Function, i: int) -> str:
    """The path whose handler answers, or "predict" for the route's own."""
    start, _ = source.split(i + 2, source.close(i + 1))[1]
    name = source.text(start)
    for found in source.find(name, "=", "handlers", ".", "find", "(", start=register.start, end=i):
        path = literal(source.slice(found + 6, source.close(found + 5)))
        return f"the handler of {path}"
    return "predict"


def _environment(source: Source, function: Function) -> dict[str, tuple[str, ...]]:
    """Members set from environment variables: name → (variable, default, value compared with)."""
    found: dict[str, tuple[str, ...]] = {}
    for i in source.find("getenv", "(", start=function.start, end=function.end):
        close = source.close(i + 1)
        arguments = [literal(source.slice(*span)) for span in source.split(i + 2, close)]
        name = i
        while source.text(name) not in (";", "{", "}"):
            name -= 1
        compared = literal(source.slice(close + 2, close + 3)) or ""
        found[source.text(name + 1)] = (arguments[0] or "", arguments[1] or "", compared)
    return {name: facts if facts[2] else facts[:2] for name, facts in found.items()}


def _static(tree: Tree) -> tuple[list[dict[str, Any]], list[str]]:
    """The static mount, and the paths of the built-in user interface's files."""
    source = tree.source(HTTP).live
    mounts = []
    for i in source.find("set_mount_point", "("):
        parts = source.split(i + 2, source.close(i + 1))
        when = [f"{spell(source.slice(*parts[1]))} is set"]
        mounts.append(_entry("GET", _suffix(source, *parts[0]), HTTP, "set_mount_point", when=when))
    if len(mounts) != 1:
        tree.missing(HTTP, f"one static mount is expected, found {len(mounts)}")
    assets: list[str] = []
    found = functions(source)
    for i in source.find("srv", "->", "Get", "("):
        function = owner(found, i)
        if function is not None and function.name == "server_http_context::get":
            continue  # what every other route is registered with
        start, end = source.split(i + 4, source.close(i + 3))[0]
        path = _suffix(source, start, end)
        if path is None:
            tree.problem(source, i, "unreadable path of a file")
        elif path not in assets:
            assets.append(path)
    return mounts, assets


def _suffix(source: Source, start: int, end: int) -> str | None:
    """A path built as `prefix + "literal" + name`, with `<name>` for what isn't literal."""
    out = ""
    for number, (begin, stop) in enumerate(source.split(start, end, "+")):
        text = literal(source.slice(begin, stop))
        if number == 0 and text is None:
            if source.text(stop - 1) != "api_prefix":
                return None
            continue
        out += text if text is not None else f"<{source.text(stop - 1)}>"
    return out


def _public(tree: Tree) -> tuple[list[str], list[str]]:
    """Paths that need no API key, and those of them that are files of the user interface."""
    source = tree.source(HTTP).live
    frontend = _set_literals(source, "paths")
    endpoints = _set_literals(source, "endpoints")
    if not frontend or not endpoints:
        tree.missing(HTTP, "the lists of public paths can't be read")
    for i in source.find("paths", ".", "insert", "("):
        end = source.close(i + 3)
        parts = source.split(i + 4, end, "+")
        if literal(source.slice(*parts[0])) == "/":
            frontend.append(f"/<{source.text(end - 1)}>")
    inserted = any(source.find("endpoints", ".", "insert", "(", "frontend_paths"))
    if endpoints and not inserted:
        tree.missing(HTTP, "the files of the user interface are no longer public")
    return endpoints + (frontend if inserted else []), frontend


def _set_literals(source: Source, name: str) -> list[str]:
    for i in source.find("unordered_set", "<"):
        brace = next(source.find("{", start=i))
        if source.text(brace - 1) == name:
            spans = source.split(brace + 1, source.close(brace))
            return [text for span in spans if (text := literal(source.slice(*span)))]
    return []


def _one(found: list[Function], name: str) -> Function | None:
    return next((function for function in found if function.name == name), None)
