// The TypeScript SDK behind an Express router that redirects /mcp to /mcp/ with an absolute address, as many do.
//
//     node express_server.cjs NODE_MODULES
//
// It listens on a free loopback port, and then prints its URL. The older transport is at /sse, and names an
// absolute address in its `endpoint` event. One tool: `add {a, b}`.

const { createRequire } = require("node:module");
const load = createRequire(`${process.argv[2]}/`);
const express = load("express");
const { z } = load("zod");
const { McpServer } = load("@modelcontextprotocol/sdk/server/mcp.js");
const { SSEServerTransport } = load("@modelcontextprotocol/sdk/server/sse.js");
const { StreamableHTTPServerTransport } = load("@modelcontextprotocol/sdk/server/streamableHttp.js");

function made() {
    const server = new McpServer({ name: "express", version: "1.0.0" });
    server.registerTool("add", { inputSchema: { a: z.number(), b: z.number() } }, async ({ a, b }) => ({
        content: [{ type: "text", text: String(a + b) }],
    }));
    return server;
}

const app = express();
const origin = (request) => `${request.protocol}://${request.get("host")}`;
const router = express.Router({ strict: true });
router.use("/mcp", (request, response, next) => {
    if (request.originalUrl === "/mcp") response.redirect(308, `${origin(request)}/mcp/`);
    else next();
});
router.all("/mcp/", async (request, response) => {
    const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: undefined });
    await made().connect(transport);
    await transport.handleRequest(request, response);
});
app.use(router);

const streams = new Map();
app.get("/sse", async (request, response) => {
    const write = response.write.bind(response);
    response.write = (text, ...more) => write(text.replace("data: /messages", `data: ${origin(request)}/messages`), ...more);
    const transport = new SSEServerTransport("/messages", response);
    streams.set(transport.sessionId, transport);
    await made().connect(transport);
});
app.post("/messages", (request, response) => streams.get(request.query.sessionId).handlePostMessage(request, response));

const listener = app.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${listener.address().port}/mcp`));
