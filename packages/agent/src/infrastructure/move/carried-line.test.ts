// Two real processes and a line between them: who is let in, what gets through, and how it ends.
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { ignore } from "@gpve/kit/background.ts";
import { spawnPiped } from "@gpve/kit/spawn.ts";
import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { supervisorBinary } from "../supervisor/build.ts";
import { CarriedLine } from "./carried-line.ts";

const root = join(import.meta.dirname, "../../../../..");
const hasCompiler = existsSync("/usr/bin/cc");
const needs = hasCompiler ? "" : " (SKIPPED, no C compiler: apt-get install gcc libc6-dev)";
const SECRET = "5e".repeat(32);
const [SCHED_OTHER, SCHED_BATCH] = [0, 3];
const uid = process.getuid?.() ?? 0;

describe.skipIf(!hasCompiler)(`a line that carries what others have encrypted${needs}`, () => {
  let program: string;
  let folder: string;
  let guest: Server;
  const met: Socket[] = [];
  const lines: CarriedLine[] = [];

  beforeAll(async () => {
    const sourceFolder = join(root, "packages/supervisor");
    program = await supervisorBinary({ sourceFolder, cacheFolder: join(root, ".cache") });
  });
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), "gpve-carried-"));
    guest = createServer((socket) => {
      met.push(socket);
      socket.on("error", () => undefined);
      socket.on("data", (data) => socket.write(`heard ${data.toString()}`));
    });
    await new Promise<void>((done) => guest.listen(join(folder, "served"), done));
  });
  afterEach(() => {
    for (const line of lines.splice(0)) line.close();
    for (const socket of met.splice(0)) socket.destroy();
    guest.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const listen = async (more: { peer?: string; uid?: number } = {}): Promise<number> => {
    const place = { address: "127.0.0.1", peer: "127.0.0.1", path: join(folder, "served"), uid, ...more };
    const { line, port } = await CarriedLine.listen(program, place, SECRET);
    lines.push(line);
    return port;
  };
  const dial = async (port: number, address = "127.0.0.1", name = "made"): Promise<CarriedLine> => {
    const line = await CarriedLine.dial(program, { address, port, path: join(folder, name) }, SECRET);
    lines.push(line);
    return line;
  };
  const guestConnects = (): { socket: Socket; heard: () => string; ended: Promise<void> } => {
    const socket = connect(join(folder, "made"));
    met.push(socket);
    let heard = "";
    socket.on("data", (data) => (heard += data.toString()));
    socket.on("error", () => undefined);
    const ended = new Promise<void>((done) => socket.once("close", () => done()));
    return { socket, heard: () => heard, ended };
  };
  /** What becomes of one who says that. */
  const stranger = (port: number, says: string): Promise<string> =>
    new Promise((resolve) => {
      const socket = connect(port, "127.0.0.1");
      met.push(socket);
      let heard = "";
      socket.on("connect", () => socket.write(says));
      socket.on("data", (data) => (heard += data.toString()));
      socket.on("error", () => undefined);
      socket.on("close", () => resolve(heard));
    });

  test("carries what both sides say, and their end", async () => {
    const port = await listen({ peer: "::ffff:127.0.0.1" });
    const line = await dial(port, "::ffff:127.0.0.1");
    const { socket, heard, ended } = guestConnects();
    socket.write("you");
    await vi.waitFor(() => expect(heard()).toBe("heard you"), { timeout: 30_000 });
    const [there] = met.filter((each) => each !== socket);
    there?.end();
    socket.end();
    await ended;
    expect(line.isExceeded).toBe(false);
  });

  test("takes one, and nobody after that", async () => {
    const port = await listen();
    await dial(port);
    await expect(dial(port, "127.0.0.1", "second")).rejects.toThrow("connect: Connection refused");
    const { socket, heard } = guestConnects();
    socket.write("still");
    await vi.waitFor(() => expect(heard()).toBe("heard still"), { timeout: 30_000 });
  });

  test("hangs up on whoever does not know the secret, and still takes the one who does", async () => {
    const port = await listen();
    expect(await stranger(port, "0".repeat(64))).toBe("");
    // Others say nothing, or not all of it.
    const silent = Array.from({ length: 7 }, () => stranger(port, SECRET.slice(0, 63)));
    const line = await dial(port);
    expect(await Promise.all(silent)).toEqual(silent.map(() => ""));
    const { socket, heard } = guestConnects();
    socket.write("you");
    await vi.waitFor(() => expect(heard()).toBe("heard you"), { timeout: 30_000 });
    expect(line.isExceeded).toBe(false);
  });

  test("does not wait for one who says nothing", async () => {
    const port = await listen();
    expect(await stranger(port, "")).toBe("");
    await dial(port);
  });

  test("hangs up on whoever comes from elsewhere, secret or not", async () => {
    const port = await listen({ peer: "127.0.0.2" });
    await expect(dial(port)).rejects.toThrow("the other end hung up");
  });

  test("speaks to nobody but the guest's own user, and to that one when there is something to say", async () => {
    let met = 0;
    guest.on("connection", () => met++);
    await dial(await listen());
    expect(met).toBe(0);
    lines.at(-1)?.close();
    rmSync(join(folder, "made"), { force: true });
    await dial(await listen({ uid: uid + 1 }));
    const { socket, heard, ended } = guestConnects();
    socket.write("you");
    await ended;
    expect(heard()).toBe("");
  });

  test("says why there is none", async () => {
    const place = { address: "192.0.2.1", peer: "127.0.0.1", path: "/x", uid };
    await expect(CarriedLine.listen(program, place, SECRET)).rejects.toThrow("cannot listen on 192.0.2.1");
    await expect(CarriedLine.listen(program, place, "short")).rejects.toThrow("what was told is no secret");
    await expect(CarriedLine.listen("/nowhere", place, SECRET)).rejects.toThrow("it ended without a word");
  });

  test("is cut by either end", async () => {
    await dial(await listen());
    const [there, here] = lines;
    const first = guestConnects();
    first.socket.write("x");
    await vi.waitFor(() => expect(first.heard()).toBe("heard x"), { timeout: 30_000 });
    here?.close();
    await first.ended;
    expect(there).toBeDefined();
    rmSync(join(folder, "made"), { force: true });
    await dial(await listen());
    const second = guestConnects();
    second.socket.write("x");
    await vi.waitFor(() => expect(second.heard()).toBe("heard x"), { timeout: 30_000 });
    lines.at(-2)?.close();
    await second.ended;
  });

  test("ends with whoever holds it, however that one ends", async () => {
    const port = await listen();
    const child = spawnPiped(program, ["carry", "dial", "127.0.0.1", String(port), join(folder, "made")]);
    child.input.write(`${SECRET}\n`);
    await new Promise((said) => child.output.once("data", said));
    const { socket, heard, ended } = guestConnects();
    socket.write("you");
    await vi.waitFor(() => expect(heard()).toBe("heard you"), { timeout: 30_000 });
    child.input.end();
    await child.ended;
    await ended;
  });

  test("interrupts nobody who sends or takes, which would be for every piece, until a guest stands still", async () => {
    const line = await dial(await listen());
    const own = readdirSync("/proc").filter((pid) => /^\d+$/.test(pid) && argvOf(pid).includes(folder));
    expect(own).toHaveLength(2);
    expect(own.map(policyOf)).toEqual([SCHED_BATCH, SCHED_BATCH]);
    const { socket, heard } = guestConnects();
    socket.write("you");
    for (const each of lines) each.hurry();
    await vi.waitFor(() => expect(own.map(policyOf)).toEqual([SCHED_OTHER, SCHED_OTHER]), {
      timeout: 30_000,
    });
    await vi.waitFor(() => expect(heard()).toBe("heard you"), { timeout: 30_000 });
    expect(line.isExceeded).toBe(false);
  });

  test("carries no more than is allowed, and says so before the guest hears of it", async () => {
    const line = await dial(await listen());
    const { socket, heard, ended } = guestConnects();
    line.allow(3);
    socket.write("you");
    await vi.waitFor(() => expect(heard()).toBe("heard you"), { timeout: 30_000 });
    expect(line.isExceeded).toBe(false);
    socket.write("!");
    await ended;
    expect(line.isExceeded).toBe(true);
    expect(heard()).toBe("heard you");
  });
});

function argvOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch (err) {
    ignore(err, "it has just ended");
    return "";
  }
}

/** proc(5): the 41st field, the third of which is the first behind the name. */
function policyOf(pid: string): number {
  const [, fields = ""] = readFileSync(`/proc/${pid}/stat`, "utf8").split(") ");
  return Number(fields.split(" ")[41 - 3]);
}
