// A small MCP server on stdio in Node: `work` reads its own source, parses and formats some JSON, and waits for a timer.
"use strict";
const fs = require("node:fs");
const lines = require("node:readline").createInterface({ input: process.stdin });

async function result(request) {
  if (request.method === "initialize") {
    const serverInfo = { name: "latency-node", version: "1" };
    return { protocolVersion: "2025-06-18", capabilities: { tools: {} }, serverInfo };
  }
  if (request.method === "tools/list") return { tools: [{ name: "work", inputSchema: { type: "object" } }] };
  if (request.method !== "tools/call") return {};
  const source = await fs.promises.readFile(__filename, "utf8");
  const rows = Array.from({ length: 500 }, (_, index) => ({ index, source }));
  JSON.parse(JSON.stringify(rows));
  await new Promise((resolve) => setTimeout(resolve, 2));
  return { content: [{ type: "text", text: "done" }] };
}

lines.on("line", async (line) => {
  const request = JSON.parse(line);
  if (request.id === undefined) return;
  process.stdout.write(`${JSON.stringify({ jsonrpc: "2.0", id: request.id, result: await result(request) })}\n`);
});
