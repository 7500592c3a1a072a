// A small server on the official TypeScript SDK of the handshake era: stdio, or HTTP on the port that is given.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { z } from 'zod';

function zoo() {
  const server = new McpServer({ name: 'zoo-ts-sdk-1', version: '1.0.0' });
  server.registerTool('add', { description: 'Add two numbers.', inputSchema: { a: z.number(), b: z.number() } }, ({ a, b }) => ({
    content: [{ type: 'text', text: String(a + b) }],
  }));
  server.registerResource('gate', 'zoo://gate', {}, () => ({ contents: [{ uri: 'zoo://gate', text: 'open' }] }));
  server.registerPrompt('ask', { argsSchema: { about: z.string() } }, ({ about }) => ({
    messages: [{ role: 'user', content: { type: 'text', text: `What of ${about}?` } }],
  }));
  return server;
}

const port = process.argv[2];
if (port) {
  const sessions = new Map();
  createServer(async (request, response) => {
    let transport = sessions.get(request.headers['mcp-session-id']);
    if (!transport) {
      transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => void sessions.set(id, transport),
      });
      await zoo().connect(transport);
    }
    await transport.handleRequest(request, response);
  }).listen(Number(port), '127.0.0.1');
} else {
  await zoo().connect(new StdioServerTransport());
}
