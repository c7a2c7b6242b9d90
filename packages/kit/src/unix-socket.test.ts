import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { createServer, type Server } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { connectUnixSocket, isNobodyListening } from "./unix-socket.ts";

describe("connecting to a unix socket", () => {
  let folder: string;
  let server: Server;

  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), "gpve-unix-"));
    server = createServer((socket) => socket.end("hello"));
    await new Promise<void>((resolve) => server.listen(join(folder, "s"), resolve));
  });

  afterEach(() => {
    server.close();
    rmSync(folder, { recursive: true, force: true });
  });

  it("reaches the socket", async () => {
    const socket = await connectUnixSocket(join(folder, "s"));
    let text = "";
    for await (const chunk of socket) text += String(chunk);
    expect(text).toBe("hello");
  });

  it("does not follow a link and does not speak to a plain file", async () => {
    symlinkSync(join(folder, "s"), join(folder, "link"));
    await expect(connectUnixSocket(join(folder, "link"))).rejects.toMatchObject({ code: "access.denied" });
    writeFileSync(join(folder, "file"), "");
    await expect(connectUnixSocket(join(folder, "file"))).rejects.toMatchObject({ code: "access.denied" });
  });

  it("tells apart that nobody listens", async () => {
    const missing: unknown = await connectUnixSocket(join(folder, "none")).catch((err: unknown) => err);
    expect(isNobodyListening(missing)).toBe(true);
    expect(isNobodyListening(new Error("x"))).toBe(false);
    expect(isNobodyListening(undefined)).toBe(false);
  });

  it("gives up when told", async () => {
    await expect(connectUnixSocket(join(folder, "s"), { signal: AbortSignal.abort() })).rejects.toMatchObject(
      { code: "operation.cancelled" },
    );
    const abort = new AbortController();
    const connecting = connectUnixSocket(join(folder, "s"), { signal: abort.signal });
    abort.abort();
    await expect(connecting).rejects.toMatchObject({ code: "operation.cancelled" });
  });
});
