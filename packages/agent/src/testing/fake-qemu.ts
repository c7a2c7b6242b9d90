// Stands in for QEMU where a test needs a process with monitors but no guest: it serves the three monitor descriptors.
// argv: -uuid UUID; `-fail TEXT` ends at once with a message; `-hang` never ends when told to. The command `x-power-off` acts as a guest that switches
// itself off, `x-bark` as a watchdog that expires.
import { createServer, type Socket } from "node:net";
import { MONITORS } from "../infrastructure/guest-process/hand-over-sockets.ts";

const valueOf = (name: string): string | undefined => {
  const at = process.argv.indexOf(name);
  return at < 0 ? undefined : process.argv[at + 1];
};

const failure = valueOf("-fail");
if (failure !== undefined) {
  process.stderr.write(`${failure}\n`);
  process.exit(1);
}

let status = "running";
const clients = new Set<Socket>();
const answers: Readonly<Record<string, (args: Record<string, unknown>) => unknown>> = {
  qmp_capabilities: () => ({}),
  getfd: () => ({}),
  "query-uuid": () => ({ UUID: valueOf("-uuid") ?? "" }),
  "query-status": () => ({ status, running: status === "running" }),
  "x-power-off": () => {
    status = "shutdown";
    const event = { event: "SHUTDOWN", data: { guest: true, reason: "guest-shutdown" } };
    for (const client of clients) client.write(`${JSON.stringify(event)}\n`);
    return {};
  },
  "x-bark": () => {
    const event = { event: "WATCHDOG", data: { action: "poweroff" } };
    for (const client of clients) client.write(`${JSON.stringify(event)}\n`);
    return {};
  },
  quit: () => {
    if (!process.argv.includes("-hang")) setImmediate(() => process.exit(0));
    return {};
  },
};

for (const { fd } of MONITORS) {
  createServer((socket) => {
    clients.add(socket);
    socket.on("close", () => clients.delete(socket));
    socket.on("error", () => socket.destroy());
    socket.write(
      `${JSON.stringify({ QMP: { version: { qemu: { major: 7, minor: 2, micro: 0 }, package: "" }, capabilities: [] } })}\n`,
    );
    let text = "";
    socket.on("data", (chunk: Buffer) => {
      const lines = (text + chunk.toString("utf8")).split("\n");
      text = lines.pop() ?? "";
      for (const line of lines) {
        const {
          execute,
          id,
          arguments: args = {},
        } = JSON.parse(line) as {
          execute: string;
          id?: string;
          arguments?: Record<string, unknown>;
        };
        const answer = answers[execute];
        const reply =
          answer === undefined
            ? { error: { class: "CommandNotFound", desc: `no ${execute}` } }
            : { return: answer(args) };
        socket.write(`${JSON.stringify({ ...reply, id })}\n`);
      }
    });
  }).listen({ fd });
}
