import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { PveHandlers } from "@gpve/domain/request/handler.ts";
import { ChannelGuestAgents } from "../../../infrastructure/guest-agent/guest-agents.ts";
import { withFrozenFilesystems } from "../../../application/qemu/agent/use-guest-agent.ts";
import type { WorldPorts } from "../../../testing/vm-world.ts";
import { systemClock } from "@gpve/kit/clock.ts";
import { FakeGuestAgent } from "../../../testing/fake-guest-agent.ts";
import { madeUpRequest, madeUpVmHost } from "../../../testing/made-up-vm.ts";
import { createVmAgentHandlers } from "./vm-agent-handlers.ts";

let fake: FakeGuestAgent;
let agents: ChannelGuestAgents;
let host: WorldPorts;
let handlers: PveHandlers;
let values: Record<string, string>;
let exited: PromiseWithResolvers<never>;
const ctx = madeUpRequest();

beforeEach(async () => {
  fake = await FakeGuestAgent.start();
  agents = new ChannelGuestAgents({ clock: systemClock });
  values = { agent: "1" };
  exited = Promise.withResolvers<never>();
  const process = {
    id: "100",
    label: "VM 100",
    socketPath: () => fake.path,
    uid: undefined,
    hasExited: false,
    exited: exited.promise,
  };
  host = madeUpVmHost({ 100: { values, process }, 101: { values } }, { agents });
  handlers = createVmAgentHandlers(host);
});
afterEach(async () => {
  agents.close();
  await fake.stop();
});

const call = async (route: string, params: object = {}): Promise<unknown> => {
  const key = route.replace(" ", " /nodes/{node}/qemu/{vmid}/agent");
  const handler = (handlers as Record<string, (params: object, ctx: unknown) => unknown>)[key];
  return handler?.({ vmid: 100, ...params }, ctx);
};

describe("the agent of a VM", () => {
  test("is listed with all its commands", async () => {
    const rows = (await call("GET ")) as { name: string }[];
    expect(rows).toHaveLength(25);
    expect(rows[0]).toEqual({ name: "exec" });
  });

  test("answers plain commands wrapped in a result, by path and by name", async () => {
    fake.answers.set("guest-get-osinfo", () => ({ id: "debian", usable: true }));
    expect(await call("GET /get-osinfo")).toEqual({ result: { id: "debian", usable: true } });
    expect(await call("POST ", { command: "get-osinfo" })).toEqual({
      result: { id: "debian", usable: true },
    });
    await expect(call("POST ", { command: "nonsense" })).rejects.toThrow("no such command 'nonsense'");
    expect(await call("POST /ping")).toEqual({ result: {} });
    expect(await call("POST /shutdown")).toEqual({ result: {} });
  });

  test("passes on what it refuses: as the answer to a plain command, else as an error", async () => {
    const desc = "The command guest-get-users has not been found";
    expect(await call("GET /get-users")).toEqual({ result: { error: { class: "CommandNotFound", desc } } });
    await expect(call("POST /exec", { command: ["true"] })).rejects.toMatchObject({
      message: "Agent error: The command guest-exec has not been found",
      pveStatus: 500,
    });
    await expect(call("GET /file-read", { file: "/a" })).rejects.toThrow("Agent error: ");
    await expect(call("POST /file-write", { file: "/a", content: "x" })).rejects.toThrow("Agent error: ");
  });

  test("is refused in PVE's words where there is none", async () => {
    await expect(call("GET /info", { vmid: 101 })).rejects.toMatchObject({
      message: "VM 101 is not running",
      pveStatus: 500,
    });
    fake.running = false;
    await expect(call("GET /info")).rejects.toThrow("QEMU guest agent is not running");
    values["agent"] = "0";
    await expect(call("GET /info")).rejects.toThrow("No QEMU guest agent configured");
    delete values["agent"];
    await expect(call("GET /info")).rejects.toThrow("No QEMU guest agent configured");
  });

  test("runs programs and shows what they printed", async () => {
    let started: unknown;
    fake.answers.set("guest-exec", (args) => {
      started = args;
      return { pid: 7 };
    });
    expect(await call("POST /exec", { command: ["cat", "-n"], "input-data": "hé" })).toEqual({ pid: 7 });
    expect(started).toEqual({
      path: "cat",
      arg: ["-n"],
      "capture-output": true,
      "input-data": Buffer.from("hé").toString("base64"),
    });
    await call("POST /exec", { command: ["true"] });
    expect(started).toEqual({ path: "true", arg: [], "capture-output": true });
    fake.answers.set("guest-exec-status", () => ({
      exited: true,
      exitcode: 0,
      "out-data": Buffer.from("hé").toString("base64"),
      "err-data": Buffer.from([0xff]).toString("base64"),
      "out-truncated": true,
      "err-truncated": true,
    }));
    expect(await call("GET /exec-status", { pid: 7 })).toEqual({
      exited: true,
      exitcode: 0,
      "out-data": "hé",
      "err-data": "ÿ",
      "out-truncated": true,
      "err-truncated": true,
    });
    fake.answers.set("guest-exec-status", () => ({ exited: false, signal: 9 }));
    expect(await call("GET /exec-status", { pid: 7 })).toEqual({ exited: false, signal: 9 });
  });

  test("reads files in parts, from an offset, up to a limit", async () => {
    const bytes = Buffer.alloc(1024 * 1024 + 5, "a");
    let at = 0;
    fake.answers.set("guest-file-open", () => 3);
    fake.answers.set("guest-file-close", () => ({}));
    fake.answers.set("guest-file-seek", (args) => (at = Number(args["offset"])));
    fake.answers.set("guest-file-read", (args) => {
      const part = bytes.subarray(at, at + Number(args["count"]));
      at += part.length;
      return { count: part.length, "buf-b64": part.toString("base64"), eof: at >= bytes.length };
    });
    expect(await call("GET /file-read", { file: "/a" })).toEqual({
      content: bytes.toString(),
      "bytes-read": bytes.length,
    });
    expect(await call("GET /file-read", { file: "/a", offset: bytes.length - 2, decode: false })).toEqual({
      content: "YWE=",
      "bytes-read": 2,
    });
    at = 0;
    expect(await call("GET /file-read", { file: "/a", count: 3 })).toEqual({
      content: "aaa",
      "bytes-read": 3,
      truncated: true,
    });
    expect(fake.commands.filter((name) => name === "guest-file-close")).toHaveLength(3);
  });

  test("writes files, encoded by us or already", async () => {
    const written: string[] = [];
    fake.answers.set("guest-file-open", () => 3);
    fake.answers.set("guest-file-close", () => ({}));
    fake.answers.set("guest-file-write", (args) => {
      const bytes = Buffer.from(String(args["buf-b64"]), "base64");
      written.push(bytes.subarray(0, 2).toString());
      return { count: Math.min(2, bytes.length) };
    });
    expect(await call("POST /file-write", { file: "/a", content: "abc" })).toBeNull();
    expect(await call("POST /file-write", { file: "/a", content: "ZGU=", encode: false })).toBeNull();
    expect(written).toEqual(["ab", "c", "de"]);
    fake.answers.set("guest-file-write", () => ({ count: 0 }));
    expect(await call("POST /file-write", { file: "/a", content: "abc" })).toBeNull();
  });

  test("sets passwords", async () => {
    let given: unknown;
    fake.answers.set("guest-set-user-password", (args) => {
      given = args;
      return {};
    });
    expect(await call("POST /set-user-password", { username: "joe", password: "hello" })).toEqual({
      result: {},
    });
    expect(given).toEqual({ username: "joe", password: "aGVsbG8=", crypted: false });
  });
});

describe("freezing a guest's file systems", () => {
  const lines: string[] = [];
  const work = {
    signal: new AbortController().signal,
    log: (line: string) => void lines.push(line),
    warn: (line: string) => void lines.push(`WARN ${line}`),
  };
  beforeEach(() => void lines.splice(0));

  test("lasts as long as the work, and ends when the work fails", async () => {
    fake.answers.set("guest-fsfreeze-freeze", () => 2);
    fake.answers.set("guest-fsfreeze-thaw", () => 2);
    await expect(
      withFrozenFilesystems(host, 100, work, () => Promise.reject(new Error("no space"))),
    ).rejects.toThrow("no space");
    expect(fake.commands.slice(-2)).toEqual(["guest-fsfreeze-freeze", "guest-fsfreeze-thaw"]);
  });

  test("goes on with a warning when the guest cannot", async () => {
    expect(await withFrozenFilesystems(host, 100, work, () => Promise.resolve(1))).toBe(1);
    expect(lines.filter((line) => line.startsWith("WARN"))).toHaveLength(2);
  });

  test("is left out without an answering agent, or when the VM's configuration says so", async () => {
    const sent = () => fake.commands.filter((name) => name.startsWith("guest-fsfreeze"));
    expect(await withFrozenFilesystems(host, 101, work, () => Promise.resolve(1))).toBe(1);
    fake.answers.delete("guest-ping");
    expect(await withFrozenFilesystems(host, 100, work, () => Promise.resolve(2))).toBe(2);
    values["agent"] = "1,freeze-fs=0";
    expect(await withFrozenFilesystems(host, 100, work, () => Promise.resolve(3))).toBe(3);
    expect(sent()).toEqual([]);
  });
});
