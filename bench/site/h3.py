"""The pages of site.mjs over HTTP/3, for `tailback probe page:http=quic`. It needs aioquic (pip install aioquic).

    python3 bench/site/h3.py [HOST [PORT]]

    /N        a page of N objects, the page itself among them, of 10 kB each (?bytes=1000)
    /count    connections, and answers that had something; on SIGTERM they are the one line of standard error

The certificate is that of site.mjs. It prints one line of JSON when it listens.
"""
import asyncio
import base64
import json
import re
import signal
import sys
import tempfile
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from aioquic.asyncio import QuicConnectionProtocol, serve
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import HandshakeCompleted, ProtocolNegotiated

# One pixel; what follows it is not looked at.
PIXEL = base64.b64decode(
    'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg==')
counts = {'connections': 0, 'answers': 0}


def content(target):
    """Status, type and body of what is at this address."""
    url = urlsplit(target)
    size = int(parse_qs(url.query).get('bytes', ['10000'])[0])
    path = url.path.lstrip('/')
    if re.fullmatch(r'\d+', path):
        images = ''.join(f'<img src="/object/{i}?bytes={size}">' for i in range(int(path) - 1))
        return 200, 'text/html', f'<!doctype html><title>{path}</title>{images}'.ljust(size).encode()
    if path.startswith('object'):
        return 200, 'image/png', PIXEL.ljust(size, b'\0')
    if path == 'count':
        return 200, 'application/json', json.dumps(counts).encode()
    return 404, 'text/plain', b'no such page'


class Connection(QuicConnectionProtocol):
    """A client's connection."""

    http = None

    def quic_event_received(self, event):
        if isinstance(event, ProtocolNegotiated):
            self.http = H3Connection(self._quic)
        if isinstance(event, HandshakeCompleted):
            counts['connections'] += 1
        for happened in self.http.handle_event(event) if self.http else ():
            if isinstance(happened, HeadersReceived):
                self.answer(happened)

    def answer(self, request):
        """Sends what was requested."""
        status, kind, body = content(dict(request.headers)[b':path'].decode())
        # The browser asks for the site's icon by itself.
        counts['answers'] += status == 200
        head = [(b':status', str(status).encode()), (b'content-type', kind.encode()),
                (b'content-length', str(len(body)).encode()), (b'cache-control', b'max-age=86400')]
        self.http.send_headers(request.stream_id, head)
        self.http.send_data(request.stream_id, body, end_stream=True)
        self.transmit()


def configuration():
    """Certificate and key, which are kept as DER and read as PEM."""
    here, pems = Path(__file__).parent, []
    for name, label in ('cert.der', 'CERTIFICATE'), ('key.der', 'PRIVATE KEY'):
        text = base64.encodebytes((here / name).read_bytes()).decode()
        pems.append(f'-----BEGIN {label}-----\n{text}-----END {label}-----\n')
    made = QuicConfiguration(is_client=False, alpn_protocols=H3_ALPN, congestion_control_algorithm='cubic')
    with tempfile.TemporaryDirectory() as scratch:
        for name, text in zip(('cert', 'key'), pems):
            (Path(scratch) / name).write_text(text)
        made.load_cert_chain(Path(scratch) / 'cert', Path(scratch) / 'key')
    return made


async def main(host='127.0.0.1', port='8001'):
    await serve(host, int(port), configuration=configuration(), create_protocol=Connection)
    print(json.dumps({'h3': int(port)}), flush=True)
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    await ended.wait()
    print(json.dumps(counts), file=sys.stderr, flush=True)


asyncio.run(main(*sys.argv[1:3]))
