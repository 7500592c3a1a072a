// The tools of the small servers behind gateways: of McpServer of the official TypeScript SDK, whatever its version.
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));
const text = (words) => ({ content: [{ type: 'text', text: words }] });

export function withTools(server, notifier) {
  server.registerTool('steps', { description: 'Report three steps.' }, async (extra) => {
    const { notify, token } = notifier(extra);
    for (let progress = 1; progress <= 3; progress++) {
      if (token !== undefined) {
        await notify({ method: 'notifications/progress', params: { progressToken: token, progress, total: 3 } });
      }
      await sleep(200);
    }
    return text('done');
  });
  server.registerTool('slow', { description: 'Take four seconds.' }, async () => {
    await sleep(4000);
    return text('at last');
  });
  server.registerTool('large', { description: 'Return 100 kB.' }, async () => text('0123456789'.repeat(10000)));
  return server;
}
