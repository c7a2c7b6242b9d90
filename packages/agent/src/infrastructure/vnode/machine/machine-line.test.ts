import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { MachineLine } from "./machine-line.ts";

let folder: string;
let server: Server;
let heard = "";
const sockets: Socket[] = [];
beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), "gpve-line-"));
  heard = "";
  server = createServer((socket) => {
    sockets.push(socket);
    socket.on("data", (data) => (heard += String(data)));
    socket.on("error", () => undefined);
  });
  await new Promise<void>((done) => void server.listen(join(folder, "line"), done));
});
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await new Promise((done) => server.close(done));
  rmSync(folder, { recursive: true, force: true });
});
const machine = (): Promise<Socket> =>
  vi.waitFor(
    () => {
      const [socket] = sockets;
      if (socket === undefined) throw new Error("nobody came");
      return socket;
    },
    { timeout: 30_000 },
  );

test("what a machine tells is kept, in whatever pieces it comes; what it is told arrives", async () => {
  const line = new MachineLine(join(folder, "line"));
  line.follow();
  line.follow();
  const socket = await machine();
  socket.write("nonsense\npods default_we");
  socket.write("b_1\nwords kubelet hello world\nwords sshd no\n");
  await vi.waitFor(() => expect(line.words).toEqual(["kubelet: hello world"]), { timeout: 30_000 });
  expect(line.pods).toEqual([{ namespace: "default", name: "web", uid: "1" }]);
  socket.write("pods\n");
  await vi.waitFor(() => expect(line.pods).toEqual([]), { timeout: 30_000 });
  await line.say("restart kubelet");
  await vi.waitFor(() => expect(heard).toBe("restart kubelet\n"), { timeout: 30_000 });
  expect(sockets).toHaveLength(1);
  line.close();
});

test("a machine that says no end is not listened to for ever; one that went is called again", async () => {
  const line = new MachineLine(join(folder, "line"));
  line.follow();
  const socket = await machine();
  socket.write("x".repeat(1_000_000));
  socket.write("\npods a_b_1\n");
  await vi.waitFor(() => expect(line.pods).toHaveLength(1), { timeout: 30_000 });
  socket.destroy();
  sockets.length = 0;
  await vi.waitFor(
    () => {
      line.follow();
      expect(sockets).toHaveLength(1);
    },
    { timeout: 30_000 },
  );
  await line.say("stop");
  await vi.waitFor(() => expect(heard).toBe("stop\n"), { timeout: 30_000 });
  line.close();
});

test("where nobody listens, it is said", async () => {
  await expect(new MachineLine(join(folder, "other")).say("stop")).rejects.toThrow("other");
});
