import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync, existsSync } from "node:fs";
import { createConnection, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { FakeGuests } from "../../testing/fake-guests.ts";
import { UnixRamStreams } from "./ram-streams.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-ram-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const guest = () => new FakeGuests().startQemu({ id: "7", label: "VM 7", program: "", args: [], files: [] });

it("writes what the guest sends over the file, and takes the socket away", async () => {
  const file = join(folder, "state");
  writeFileSync(file, "x".repeat(10));
  const process = await guest();
  const receiver = await new UnixRamStreams(join(folder, "run")).receive(process, file);
  const path = receiver.uri.replace("unix:", "");
  expect(process.files).toEqual([path]);
  const socket = createConnection(path);
  socket.end("memory");
  await receiver.written;
  await receiver.close();
  expect(readFileSync(file, "utf8")).toBe("memoryxxxx");
  expect(existsSync(path)).toBe(false);
  expect(process.files).toEqual([]);
});

it.each([
  ["/dev/full", "capacity.exceeded", "not enough space on the storage: writing the VM state to"],
  ["/dev/null", "internal.error", "writing the VM state to"],
])("says what went wrong with %s", async (file, code, message) => {
  const receiver = await new UnixRamStreams(join(folder, "run")).receive(await guest(), file);
  const socket = createConnection(receiver.uri.replace("unix:", ""));
  socket.on("error", () => socket.destroy());
  socket.end("memory");
  await expect(receiver.written).rejects.toMatchObject({ code, message: expect.stringContaining(message) });
  await receiver.close();
});

it("follows no link that stands where the state should", async () => {
  const [file, elsewhere] = [join(folder, "state"), join(folder, "of-the-host")];
  writeFileSync(elsewhere, "kept");
  symlinkSync(elsewhere, file);
  const streams = new UnixRamStreams(join(folder, "run"));
  await expect(streams.receive(await guest(), file)).rejects.toThrow("ELOOP");
  expect(readFileSync(elsewhere, "utf8")).toBe("kept");
});

it("sends a file and does not mind a guest that has read enough", async () => {
  const file = join(folder, "state");
  writeFileSync(file, Buffer.alloc(4 * 1024 * 1024, 1));
  const path = join(folder, "ram.sock");
  let read = 0;
  const server = createServer((socket) => {
    socket.on("error", () => socket.destroy());
    socket.once("data", (chunk: Buffer) => {
      read = chunk.length;
      socket.destroy();
    });
  });
  await new Promise<void>((done) => server.listen(path, done));
  const streams = new UnixRamStreams(folder);
  await streams.send(await guest(), path, file, new AbortController().signal);
  server.close();
  expect(read).toBeGreaterThan(0);
  await expect(
    streams.send(await guest(), join(folder, "none"), file, new AbortController().signal),
  ).rejects.toThrow("cannot connect");
});
