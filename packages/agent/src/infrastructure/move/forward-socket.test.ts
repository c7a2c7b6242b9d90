import { mkdtempSync, rmSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Duplex, duplexPair } from "node:stream";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { FakeGuests } from "../../testing/fake-guests.ts";
import { forwardSocket } from "./forward-socket.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-fwd-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

/** A guest that has sent something, and what of it came to the other end. */
async function sending(channel: string) {
  const process = await new FakeGuests().startQemu({
    id: "7",
    label: "VM 7",
    program: "",
    args: [],
    files: [],
  });
  const came = { bytes: 0 };
  const forwarded = await forwardSocket(folder, process, channel, async () => {
    const [line, other] = duplexPair() as [Duplex, Duplex];
    other.on("data", (chunk: Buffer) => (came.bytes += chunk.length));
    return { line };
  });
  const guest: Socket = connect(forwarded.path);
  guest.on("error", () => undefined);
  guest.write(Buffer.alloc(1000));
  await vi.waitFor(() => expect(came.bytes).toBe(1000), { timeout: 30_000 });
  return { forwarded, guest, came };
}

test("a guest that sends more than it may at last is hung up on, and no sooner", async () => {
  const { forwarded, guest, came } = await sending("ram");
  forwarded.allow(500);
  guest.write(Buffer.alloc(500));
  await vi.waitFor(() => expect(came.bytes).toBe(1500), { timeout: 30_000 });
  expect([forwarded.isExceeded, guest.destroyed]).toEqual([false, false]);
  const closed = new Promise<void>((done) => guest.once("close", () => done()));
  guest.write(Buffer.alloc(1));
  await closed;
  expect(forwarded.isExceeded).toBe(true);
  await forwarded.close();
});

test("a guest of which nobody has said what it may send is carried on", async () => {
  const { forwarded, guest, came } = await sending("ram");
  guest.end(Buffer.alloc(10_000));
  await vi.waitFor(() => expect(came.bytes).toBe(11_000), { timeout: 30_000 });
  await forwarded.close();
  expect(forwarded.isExceeded).toBe(false);
});
