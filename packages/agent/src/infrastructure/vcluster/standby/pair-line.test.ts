import { mkdtempSync, rmSync, statSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { connectUnixSocket } from "@gpve/kit/unix-socket.ts";
import { FollowLine, LeadLine, type PairHello } from "./pair-line.ts";
import { openSocketDoor, type SocketDoor } from "./socket-door.ts";

const POLL = { timeout: 30_000, interval: 10 };
let folder: string;
const closing: (() => unknown)[] = [];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "gpve-pair-line-"));
});
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close();
  rmSync(folder, { recursive: true, force: true });
});

/** A member that says to everybody who it is, and what it was told. */
async function member(name: string): Promise<() => Promise<Socket>> {
  const server: Server = createServer((socket) => {
    socket.on("error", () => socket.destroy());
    socket.on("data", (chunk) => socket.write(`${name} heard ${chunk.toString()}`));
  });
  await new Promise<void>((listening) => server.listen(join(folder, name), listening));
  closing.push(() => server.close());
  return () => connectUnixSocket(join(folder, name));
}

async function ends(): Promise<readonly [Socket, Socket]> {
  const server = createServer();
  await new Promise<void>((listening) => server.listen(0, "127.0.0.1", listening));
  const { port } = server.address() as { port: number };
  const come = new Promise<Socket>((resolve) => server.once("connection", resolve));
  const here = connect(port, "127.0.0.1");
  const there = await come;
  server.close();
  for (const each of [here, there]) {
    each.on("error", () => each.destroy());
    closing.push(() => each.destroy());
  }
  return [here, there];
}

async function pair(hello: (words: PairHello) => Promise<boolean> = async () => true) {
  const [here, there] = await ends();
  const lead = new LeadLine(here, await member("lead"));
  const follow = new FollowLine(there, { hello, connectOwn: await member("follow") });
  closing.push(() => lead.close());
  const doors: SocketDoor[] = [];
  const door = async (name: string, come: (socket: Socket) => void): Promise<string> => {
    const opened = await openSocketDoor(folder, { name, mode: 0o666 }, come);
    doors.push(opened);
    closing.push(() => opened.close());
    return join(folder, name);
  };
  const toFollow = await door("to-follow:0", (socket) => lead.carry(socket));
  const toLead = await door("to-lead:0", (socket) => follow.carry(socket));
  return { lead, follow, toFollow, toLead, here, there };
}

async function say(path: string, words: string): Promise<string> {
  const socket = connect(path);
  closing.push(() => socket.destroy());
  socket.on("error", () => socket.destroy());
  socket.write(words);
  return new Promise((resolve) => {
    socket.once("data", (chunk) => resolve(chunk.toString()));
    socket.once("close", () => resolve("nothing"));
  });
}

const words = { generation: 7, is: "voter", leader: "first" } as const;

describe("the line between two members", () => {
  test("carries connections both ways, more than wait at a time", async () => {
    const { lead, toFollow, toLead } = await pair();
    expect(await lead.hello(words)).toBe(true);
    expect(await say(toFollow, "a")).toBe("follow heard a");
    for (let at = 0; at < 20; at++) expect(await say(toLead, `${at}`)).toBe(`lead heard ${at}`);
    const many = await Promise.all([1, 2, 3, 4, 5].map((at) => say(toFollow, `${at}`)));
    expect(many).toEqual([1, 2, 3, 4, 5].map((at) => `follow heard ${at}`));
    expect(statSync(toFollow).mode & 0o777).toBe(0o666);
  });

  test("says what the standby is to know, and hears whether it is so", async () => {
    const heard: PairHello[] = [];
    let isTaken = true;
    const { lead } = await pair(async (said) => {
      heard.push(said);
      if (!isTaken) throw new Error("its data are gone");
      return said.generation === 7;
    });
    expect(await lead.hello({ ...words, leadId: "123" })).toBe(true);
    expect(await lead.hello({ ...words, generation: 8 })).toBe(false);
    expect(await lead.hello({ ...words, leader: "../../etc/passwd" })).toBe(false);
    expect(await lead.hello({ ...words, leadId: "1; rm" })).toBe(true);
    isTaken = false;
    expect(await lead.hello(words)).toBe(false);
    expect(heard).toEqual([{ ...words, leadId: "123" }, { ...words, generation: 8 }, words, words]);
  });

  test("ends for both when it is cut, with all that it carried", async () => {
    const { lead, follow, here, toFollow, toLead } = await pair();
    expect(await say(toFollow, "a")).toBe("follow heard a");
    here.destroy();
    await Promise.all([lead.closed, follow.closed]);
    expect(lead.isOpen).toBe(false);
    expect(await lead.hello(words)).toBe(false);
    expect(await say(toFollow, "b")).toBe("nothing");
    expect(await say(toLead, "c")).toBe("nothing");
  });

  test("tells a member that the other does not run", async () => {
    const [here, there] = await ends();
    const gone = () => Promise.reject(new Error("ECONNREFUSED"));
    const lead = new LeadLine(here, gone);
    const follow = new FollowLine(there, { hello: async () => true, connectOwn: gone });
    closing.push(() => lead.close());
    const [to, back] = [join(folder, "to"), join(folder, "back")];
    const doors = [
      await openSocketDoor(folder, { name: "to", mode: 0o600 }, (socket) => lead.carry(socket)),
      await openSocketDoor(folder, { name: "back", mode: 0o600 }, (socket) => follow.carry(socket)),
    ];
    closing.push(() => doors.map((door) => door.close()));
    expect(await lead.hello(words)).toBe(true);
    expect(await say(to, "a")).toBe("nothing");
    expect(await say(back, "a")).toBe("nothing");
    await expect.poll(() => lead.hello(words), POLL).toBe(true);
  });
});
