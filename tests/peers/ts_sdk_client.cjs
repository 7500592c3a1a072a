// The client of the TypeScript SDK: for each line `TRANSPORT URL TOOL ARGUMENTS` on stdin, one connection and one call.
//
//     node ts_sdk_client.cjs NODE_MODULES
//
// TRANSPORT is `http` or `sse`. It prints the text of each result, or `error: ` and why there is none, as a line.

const { createRequire } = require("node:module");
const { createInterface } = require("node:readline");
const load = createRequire(`${process.argv[2]}/`);
const { Client } = load("@modelcontextprotocol/sdk/client/index.js");
const { SSEClientTransport } = load("@modelcontextprotocol/sdk/client/sse.js");
const { StreamableHTTPClientTransport } = load("@modelcontextprotocol/sdk/client/streamableHttp.js");

async function called(line) {
    const [transport, url, name, given] = line.split(" ");
    const Transport = transport === "sse" ? SSEClientTransport : StreamableHTTPClientTransport;
    const client = new Client({ name: "ts-sdk", version: "1.0.0" });
    try {
        await client.connect(new Transport(new URL(url)));
        const result = await client.callTool({ name, arguments: JSON.parse(given) });
        return result.content[0].text;
    } catch (error) {
        return `error: ${error.message.replaceAll("\n", " ")}`;
    } finally {
        await client.close();
    }
}

(async () => {
    for await (const line of createInterface({ input: process.stdin })) console.log(await called(line));
    process.exit();
})();
