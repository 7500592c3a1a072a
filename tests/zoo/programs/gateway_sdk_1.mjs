// A small server on the official TypeScript SDK of the handshake era, behind gateways: gateway_sdk_1.mjs FRAMEWORK PORT.
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { serve } from '@hono/node-server';
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { WebStandardStreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/webStandardStreamableHttp.js';
import express from 'express';
import Fastify from 'fastify';
import { Hono } from 'hono';
import { withTools } from './gateway_tools.mjs';

const [framework, port] = [process.argv[2], Number(process.argv[3])];
const sessions = new Map();

async function transportFor(id, Transport, options = {}) {
  const known = sessions.get(id);
  if (known) return known;
  const transport = new Transport({
    sessionIdGenerator: randomUUID,
    onsessioninitialized: (session) => void sessions.set(session, transport),
    ...options,
  });
  const notifier = (extra) => ({ notify: extra.sendNotification, token: extra._meta?.progressToken });
  await withTools(new McpServer({ name: `gateway-${framework}`, version: '1.0.0' }), notifier).connect(transport);
  return transport;
}

const node = async (request, response, body, options) => {
  const transport = await transportFor(request.headers['mcp-session-id'], StreamableHTTPServerTransport, options);
  await transport.handleRequest(request, response, body);
};

if (framework === 'express') {
  const app = express();
  app.use(express.json());
  app.all('/mcp', (request, response) => node(request, response, request.body));
  app.listen(port, '127.0.0.1');
} else if (framework === 'fastify') {
  const app = Fastify();
  app.all('/mcp', (request, reply) => {
    reply.hijack();
    return node(request.raw, reply.raw, request.body, { enableJsonResponse: true });
  });
  await app.listen({ port, host: '127.0.0.1' });
} else if (framework === 'hono') {
  const app = new Hono();
  app.all('/mcp', async (context) => {
    const id = context.req.header('mcp-session-id');
    return (await transportFor(id, WebStandardStreamableHTTPServerTransport)).handleRequest(context.req.raw);
  });
  serve({ fetch: app.fetch, port, hostname: '127.0.0.1' });
} else {
  createServer((request, response) => node(request, response)).listen(port, '127.0.0.1');
}
