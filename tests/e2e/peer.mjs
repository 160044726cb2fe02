// An independent peer of the wire protocol on Node's own TLS and crypto, so that our two ends are not only tested
// against each other. It shares no code with them and keeps no state.
//
//   node peer.mjs controller '{"cert":PATH,"key":PATH,"pairingKey":PATH?,"hmac":SECRET?,"approve":bool,"proof":"yes|no|wrong"}'
//   node peer.mjs gateway    '{"port":N,"id":ID,"hmac":SECRET?,"tamper":"signature|key|code|proof"?,"controllerId":ID?,
//                                "metadata":OBJECT?,"mute":"challenge|requests"?}'
//
// Standard output: one JSON line per event, {event, …}. Standard input: one JSON line per order:
//   {"send":FRAME}  {"raw":TEXT}  {"pause":true}  {"deliver":{id,params},"values":{NAME:VALUE}}  {"approve":true}  {"drop":true}

import { createHash, createHmac, createPrivateKey, createPublicKey, generateKeyPairSync, randomBytes, sign, verify, X509Certificate } from 'node:crypto';
import { existsSync, readFileSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { connect, createServer } from 'node:tls';

const [role, text] = process.argv.slice(2);
const options = JSON.parse(text);
const tell = (event, more = {}) => process.stdout.write(`${JSON.stringify({ event, ...more })}\n`);
const hex = (data) => createHash('sha256').update(data).digest('hex');
const joined = (...parts) => parts.join('\0');
const hmacProof = (secret, id, nonce) => createHmac('sha256', secret).update(joined('burrow-host-gateway-auth-v1', id, nonce)).digest('hex');
const pairing = (nonce, id, node, controller) => joined('burrow-node-goblin-pairing-v1', nonce, id, node, controller);
const shown = (transcript) => hex(transcript).slice(0, 12).toUpperCase().replace(/(.{4})(.{4})(.{4})/, '$1-$2-$3');

function keyPair(path) {
  let privateKey;
  if (path && existsSync(path)) privateKey = createPrivateKey(readFileSync(path));
  else privateKey = generateKeyPairSync('ed25519').privateKey;
  if (path) writeFileSync(path, privateKey.export({ type: 'pkcs8', format: 'pem' }), { mode: 0o600 });
  return { privateKey, pem: createPublicKey(privateKey).export({ type: 'spki', format: 'pem' }) };
}

/** Frames of a socket, and a way to write some. */
function speak(socket, onFrame) {
  socket.setNoDelay(true);
  socket.on('error', (error) => tell('socket error', { code: error.code }));
  socket.on('close', () => tell('closed'));
  createInterface({ input: socket }).on('line', (line) => onFrame(JSON.parse(line))).on('error', () => { /* told by the socket */ });
  return (frame) => { if (socket.writable) socket.write(`${JSON.stringify(frame)}\n`); };
}

function orders(handle) {
  createInterface({ input: process.stdin }).on('line', (line) => handle(JSON.parse(line))).on('close', () => process.exit(0));
}

if (role === 'controller') {
  const keys = keyPair(options.pairingKey);
  const cert = readFileSync(options.cert);
  const leaf = hex(new X509Certificate(cert).raw);
  let live;
  const server = createServer({ cert, key: readFileSync(options.key) }, (socket) => {
    const nonce = randomBytes(24).toString('base64url');
    const connectionId = `${Date.now()}-${randomBytes(6).toString('hex')}`;
    const here = { socket, connectionId, gatewayId: undefined, admit: () => { here.send({ type: 'auth.ok', connectionId }); tell('ready', { connectionId, gatewayId: here.gatewayId }); } };
    live = here;
    here.send = speak(socket, (frame) => {
      tell('frame', { frame });
      if (frame.type !== 'auth.response') return;
      here.gatewayId = frame.gatewayId;
      const refuse = (code) => { here.send({ type: 'transport.error', ok: false, error: { code } }); socket.end(); };
      if (options.hmac !== undefined) {
        if (frame.proof === hmacProof(options.hmac, frame.gatewayId, nonce)) here.admit();
        else refuse('auth_failed');
        return;
      }
      const transcript = pairing(nonce, frame.gatewayId, frame.nodePublicKey, keys.pem);
      if (!verify(null, Buffer.from(transcript), createPublicKey(frame.nodePublicKey), Buffer.from(frame.pairingSignature, 'base64url'))) return refuse('unknown_node');
      if (options.approve !== false) return here.admit();
      here.send({ type: 'pairing.pending', pairingCode: shown(transcript) });
      tell('pending', { code: shown(transcript), claimed: frame.pairingCode });
    });
    const proven = joined('burrow-node-goblin-controller-v1', nonce, options.proof === 'wrong' ? hex('another') : leaf);
    const controllerProof = options.proof === 'no' ? undefined : sign(null, Buffer.from(proven), keys.privateKey).toString('base64url');
    here.send({ type: 'auth.challenge', nonce, controllerPublicKey: keys.pem, controllerProof });
  });
  server.on('tlsClientError', (error) => tell('tls error', { code: error.code }));
  server.listen(0, '127.0.0.1', () => tell('listening', { port: server.address().port, fingerprint: leaf }));
  orders((order) => {
    if (order.approve) live.admit();
    if (order.drop) live.socket.destroy();
    if (order.raw !== undefined) live.socket.write(order.raw);
    if (order.send) live.send(order.send);
    if (order.deliver) {
      const { id, params } = order.deliver;
      const protectedDelivery = { gatewayId: live.gatewayId, connectionId: live.connectionId, requestId: id, operationId: params.operationId, ...order.binding };
      live.send({ id, method: 'process.exec', params: { ...params, protectedValues: order.values, protectedDelivery } });
    }
  });
} else {
  const keys = keyPair();
  const socket = connect({ host: '127.0.0.1', port: options.port, rejectUnauthorized: false });
  socket.once('secureConnect', () => tell('connected', { certificate: socket.getPeerX509Certificate().toString() }));
  const send = speak(socket, (frame) => {
    tell('frame', { frame });
    if (options.mute === (frame.type === 'auth.challenge' ? 'challenge' : 'requests')) return;
    if (frame.type === 'auth.challenge') {
      const transcript = pairing(frame.nonce, options.id, keys.pem, frame.controllerPublicKey);
      const signed = options.tamper === 'signature' ? `${transcript}.` : transcript;
      const identity = options.hmac !== undefined
        ? { proof: hmacProof(options.tamper === 'proof' ? `${options.hmac}.` : options.hmac, options.id, frame.nonce) }
        : {
          nodePublicKey: options.tamper === 'key' ? keyPair().pem : keys.pem,
          pairingSignature: sign(null, Buffer.from(signed), keys.privateKey).toString('base64url'),
          pairingCode: options.tamper === 'code' ? 'AAAA-AAAA-AAAA' : shown(transcript),
        };
      tell('code', { code: shown(transcript) });
      send({ type: 'auth.response', gatewayId: options.id, controllerId: options.controllerId ?? 'controller', ...identity, gateway: options.metadata ?? { name: 'node peer', version: '0', protocolVersion: '1.0' } });
    } else if (frame.method === 'health') {
      send({ type: 'response', requestId: frame.id, ok: true, result: { status: 'ok', activeOperations: [] } });
    } else if (frame.method === 'process.exec') {
      const { operationId } = frame.params;
      const time = new Date(0).toISOString();
      const evidence = {
        type: 'process.result', startedAt: time, endedAt: time, durationMs: 0.5, cwd: '/', effectiveUid: 0, effectiveGid: 0, hostname: 'node', mode: 'exec',
        executable: 'x', args: [], command: null, exitCode: 0, signal: null, cancelled: false, killed: false, truncated: false, timedOut: false, timeoutReason: null,
        timeoutMs: 30000, deadlineMs: null, stdout: 'from node\n', stderr: '', stdoutDigest: hex('from node\n'), stderrDigest: hex(''),
      };
      send({ type: 'accepted', requestId: frame.id, ok: true, operationId, protocolVersion: '1.0' });
      send({ type: 'process.stream', operationId, stream: 'stdout', seq: 1, data: 'from node\n', truncated: false });
      send({ type: 'process.terminal', operationId, seq: 2, evidence });
      send({ type: 'response', requestId: frame.id, ok: true, result: { operationId, replay: false, outcome: evidence } });
    } else if (frame.method === 'cancel') {
      send({ type: 'response', requestId: frame.id, ok: true, result: { operationId: frame.params.operationId, cancelling: false } });
    }
  });
  socket.on('close', () => process.exit(0));
  orders((order) => {
    if (order.drop) socket.destroy();
    if (order.pause) socket.pause();
    if (order.raw !== undefined) socket.write(order.raw);
    if (order.send) send(order.send);
  });
}
