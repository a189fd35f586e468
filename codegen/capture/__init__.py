"""Records what the reference answers and replays it against this server.

Probes (`spec/probes/`, and those derived from the spec) are requests; a recorder sends them to
llama-server and writes `spec/captures/`; the replay sends the recorded requests to this server and
compares. Probes, set-ups and captures are data; what may differ is declared in `spec/replies/`.
"""

from codegen.capture.index import index
from codegen.capture.record import main
from codegen.capture.replay import main as replay_main

__all__ = ["index", "main", "replay_main"]
