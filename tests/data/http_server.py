"""A local HTTP server with one file and the faults that real servers have."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class Site:
    """What the server does; changed by tests while it runs.

    Attributes:
        cuts: Bytes after which successive answers stop; empty for whole answers.
        statuses: Status codes that successive requests get instead of the file.
        requests: Headers of every request, in order.
    """

    content: bytes
    etag: str | None = '"v1"'
    last_modified: str | None = None
    ranges: bool = True
    announce: bool = True
    cuts: list[int] = field(default_factory=list)
    statuses: list[int] = field(default_factory=list)
    redirect: str | None = None
    requests: list[dict[str, str]] = field(default_factory=list)
    url: str = ""


@contextmanager
def serve(content: bytes) -> Iterator[Site]:
    """Serve ``content`` at ``site.url`` until the block ends."""
    site = Site(content)

    class Handler(BaseHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            pass

        def do_GET(self) -> None:
            site.requests.append({name.lower(): value for name, value in self.headers.items()})
            if site.redirect is not None:
                self.send_response(302)
                self.send_header("Location", site.redirect)
                self.end_headers()
                return
            if site.statuses:
                self.send_error(site.statuses.pop(0))
                return
            self._send()

        def _send(self) -> None:
            wanted, same = self.headers.get("Range"), self.headers.get("If-Range")
            start = 0
            if wanted and site.ranges and same in (site.etag, site.last_modified):
                start = int(wanted.removeprefix("bytes=").removesuffix("-"))
                if start >= len(site.content):
                    self.send_response(416)
                    self.send_header("Content-Range", f"bytes */{len(site.content)}")
                    self.end_headers()
                    return
                self.send_response(206)
                self.send_header("Content-Range", f"bytes {start}-{len(site.content) - 1}/{len(site.content)}")
            else:
                self.send_response(200)
            if site.etag:
                self.send_header("ETag", site.etag)
            if site.last_modified:
                self.send_header("Last-Modified", site.last_modified)
            body = site.content[start:]
            if site.announce:
                self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body[: site.cuts.pop(0)] if site.cuts else body)

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    site.url = f"http://127.0.0.1:{server.server_port}/file.bin"
    try:
        yield site
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
