// A small server on the library LiteMCP, over stdio.
import { LiteMCP } from 'litemcp';
import { z } from 'zod';

const server = new LiteMCP('zoo-litemcp', '1.0.0');
server.addTool({
  name: 'add',
  description: 'Add two numbers.',
  parameters: z.object({ a: z.number(), b: z.number() }),
  execute: async ({ a, b }) => a + b,
});
await server.start();
