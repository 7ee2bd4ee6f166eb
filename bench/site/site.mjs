// A site for `tailback probe page`: pages of any number of objects over HTTP/1.1 and HTTP/2, Node's own modules only.
//
//   node bench/site/site.mjs [HOST [PORT]]      HTTP/1.1 at PORT, TLS with HTTP/2 (or 1.1) at the next, TLS with 1.1 only at the one after
//
//   /N           a page of N objects, the page itself among them, of 10 kB each (?bytes=1000)
//   /slow        never answered          /moved   leads to /1         /script  leads to /1 by a script
//   /missing     HTTP 404                /part    a page whose object is missing
//   /throttled   ?bytes=B in ?ms=T, the last third of that time at an eighth of the rate
//   /count       connections taken so far, per port
//
// It prints one line of JSON when it listens: the ports, and what `page:trust=` takes.
import { createHash, createPrivateKey, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import http2 from 'node:http2';
import https from 'node:https';

const [host = '127.0.0.1', first = '0', word = ''] = process.argv.slice(2);
// A certificate that nobody vouches for, of P-256: Chromium does not take Ed25519. Its key is public and protects nothing.
// openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 36500 -subj '/CN=tailback test site'
//   -addext subjectAltName=DNS:far,DNS:localhost,IP:10.77.0.2,IP:127.0.0.1 makes its like; both are kept as DER.
const cert = new X509Certificate(readFileSync(new URL('cert.der', import.meta.url)));
const key = createPrivateKey({ key: readFileSync(new URL('key.der', import.meta.url)), format: 'der', type: 'pkcs8' });
const trust = createHash('sha256').update(cert.publicKey.export({ type: 'spki', format: 'der' })).digest('base64');
const secure = { cert: cert.toString(), key: key.export({ type: 'pkcs8', format: 'pem' }) };

// One pixel; what follows it is not looked at. A browser stops reading what is no picture.
const pixel = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg==', 'base64');

const counts = {};
const wait = (ms) => new Promise((done) => setTimeout(done, ms));

async function answer(ask, reply) {
  const url = new URL(ask.url, 'http://site');
  const number = (name, usual) => Number(url.searchParams.get(name) ?? usual);
  const send = (type, body, status = 200, more = {}) => {
    // To be kept for a day: a browser that has anything cached would show it.
    // With the word h3 it announces h3.py, which speaks HTTP/3 at the UDP port of the same number.
    const speaks = word === 'h3' && ask.socket.encrypted ? { 'alt-svc': `h3=":${ask.socket.localPort}"` } : {};
    reply.writeHead(status, { 'content-type': type, 'cache-control': 'max-age=86400', ...speaks, ...more });
    reply.end(body);
  };
  const path = url.pathname.slice(1);
  const bytes = number('bytes', 10_000);
  if (/^\d+$/.test(path)) {
    const images = Array.from({ length: Number(path) - 1 }, (_, i) => `<img src="/object/${i}?bytes=${bytes}">`);
    return send('text/html', `<!doctype html><title>${path}</title>${images.join('')}`.padEnd(bytes));
  }
  switch (path.split('/')[0]) {
    case 'object': return send('image/png', Buffer.concat([pixel, Buffer.alloc(Math.max(bytes - pixel.length, 0))]));
    case 'slow': return undefined;
    case 'moved': return send('text/plain', '', 302, { location: '/1' });
    case 'script': return send('text/html', '<script>location = "/1"</script><img src="/slow">');
    case 'part': return send('text/html', '<img src="/missing">');
    case 'count': return send('application/json', JSON.stringify(counts), 200, { 'cache-control': 'no-store' });
    case 'throttled': {
      const ms = number('ms', 3000);
      const step = 50;
      const whole = bytes / (2 / 3 + 1 / 24);
      reply.writeHead(200, { 'content-type': 'text/html' });
      for (let at = 0; at < ms; at += step) {
        const share = at < (ms * 2) / 3 ? 1 : 1 / 8;
        reply.write(' '.repeat(Math.round((whole * share * step) / ms)));
        await wait(step);
      }
      return reply.end();
    }
    default: return send('text/plain', 'no such page', 404);
  }
}

function listen(server, port) {
  return new Promise((done) => server.listen(port, host, () => {
    const at = server.address().port;
    counts[at] = 0;
    server.on('connection', () => { counts[at] += 1; });
    done(at);
  }));
}

const from = Number(first);
const port = (n) => (from ? from + n : 0);
const plain = await listen(http.createServer(answer), port(0));
const h2 = await listen(http2.createSecureServer({ ...secure, allowHTTP1: true }, answer), port(1));
const tls = await listen(https.createServer({ ...secure, ALPNProtocols: ['http/1.1'] }, answer), port(2));
console.log(JSON.stringify({ http: plain, h2, https: tls, trust }));
