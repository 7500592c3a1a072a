// A small server on the official TypeScript SDK of both eras: stdio, or HTTP on the port that is given.
import { createServer } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

function zoo() {
  const server = new McpServer({ name: 'zoo-ts-sdk-2', version: '1.0.0' });
  const inputSchema = z.object({ a: z.number(), b: z.number() });
  server.registerTool('add', { description: 'Add two numbers.', inputSchema }, ({ a, b }) => ({
    content: [{ type: 'text', text: String(a + b) }],
  }));
  server.registerResource('gate', 'zoo://gate', {}, () => ({ contents: [{ uri: 'zoo://gate', text: 'open' }] }));
  server.registerPrompt('ask', { argsSchema: z.object({ about: z.string() }) }, ({ about }) => ({
    messages: [{ role: 'user', content: { type: 'text', text: `What of ${about}?` } }],
  }));
  return server;
}

const port = process.argv[2];
if (port) {
  createServer(toNodeHandler(createMcpHandler(zoo))).listen(Number(port), '127.0.0.1');
} else {
  serveStdio(zoo);
}
