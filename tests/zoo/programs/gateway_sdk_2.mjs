// A small server on the official TypeScript SDK of both eras, behind gateways: gateway_sdk_2.mjs PORT.
import { createServer } from 'node:http';
import { toNodeHandler } from '@modelcontextprotocol/node';
import { createMcpHandler, McpServer } from '@modelcontextprotocol/server';
import { withTools } from './gateway_tools.mjs';

const notifier = (context) => ({ notify: context.mcpReq.notify, token: context.mcpReq._meta?.progressToken });
const server = () => withTools(new McpServer({ name: 'gateway-ts-2', version: '1.0.0' }), notifier);
createServer(toNodeHandler(createMcpHandler(server))).listen(Number(process.argv[2]), '127.0.0.1');
