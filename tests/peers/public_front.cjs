// Puts `mcpproxy serve --public` in front of every HTTP server of a Node program, at the server's own address.
//
//     MCPPROXY_FRONT='{"command": ["mcpproxy"], "captures": "DIR"}' node --require ./public_front.cjs PROGRAM
//
// A server that asks for a free port (port 0) gets one, and its `address()` says so. But it is `serve` that listens on
// that port; the server itself listens on a Unix socket in DIR. So clients reach the server at the address by which it
// knows itself. As programs read the address immediately after `listen`, `listen` returns only once `serve` accepts
// clients.

const { spawn } = require("node:child_process");
const { closeSync, openSync, readFileSync } = require("node:fs");
const { Server } = require("node:net");
const { join } = require("node:path");

const { command, captures } = JSON.parse(process.env.MCPPROXY_FRONT);
const listen = Server.prototype.listen;
const running = new Set();
const START_MS = 60_000;
const LOOK_MS = 10;
let count = 0;

/** Returns a port on which no process listens. */
function freePort() {
  const probe = new Server();
  listen.call(probe, 0); // with a host, the address would come later
  const { port } = probe.address();
  probe.close();
  return port;
}

/** Start `serve` in front of a socket, and wait until it has printed its address; returns its process and port. */
function start(socket) {
  const port = freePort();
  const [stdout, stderr] = ["url", "stderr"].map((name) => `${socket}.${name}`);
  const files = [openSync(stdout, "w"), openSync(stderr, "w")];
  const options = ["--capture", `${captures}/`, "--listen", `${port}`, "--public", `http://localhost:${port}/mcp`];
  const front = spawn(command[0], [...command.slice(1), "serve", ...options, `unix:${socket}`], {
    stdio: ["ignore", ...files],
  });
  files.forEach(closeSync);
  const until = Date.now() + START_MS;
  const clock = new Int32Array(new SharedArrayBuffer(4));
  while (!readFileSync(stdout, "utf8").endsWith("\n")) {
    if (Date.now() > until) throw new Error(`serve does not start: ${readFileSync(stderr, "utf8")}`);
    Atomics.wait(clock, 0, 0, LOOK_MS);
  }
  return { front, port };
}

Server.prototype.listen = function (port, ...others) {
  if (port !== 0) return listen.call(this, port, ...others);
  const socket = join(captures, `server-${++count}.sock`);
  listen.call(this, socket, ...others.filter((other) => typeof other === "function"));
  const { front, port: chosen } = start(socket);
  running.add(front);
  this.address = () => ({ address: "127.0.0.1", family: "IPv4", port: chosen });
  this.once("close", () => {
    running.delete(front);
    front.kill();
  });
  return this;
};

process.on("exit", () => running.forEach((front) => front.kill()));
