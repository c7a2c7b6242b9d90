// A question of SNTP (RFC 4330): does a server tell the time, and does it know it itself?
import { messageOf } from "@gpve/contracts/errors.ts";
import { randomBytes } from "node:crypto";
import { createSocket } from "node:dgram";
import { lookup } from "node:dns/promises";
import { setTimeout as sleep } from "node:timers/promises";

/** undefined: it tells the time. Else why it does not. */
export type AskTime = (server: string) => Promise<string | undefined>;

const PORT = 123;
const LENGTH = 48;
/** Version 4, asked by a client. */
const QUESTION = 0x23;
const MODE_OF_SERVERS = 4;
const UNSYNCHRONISED = 3;
const MAX_STRATUM = 15;
const AGAIN_MS = 700;
/** Where no name server is reached, the system tries for longer than anybody waits. */
const NAMED_MS = 3_000;
/** Packets are lost now and then. */
const TRIES = 3;

export async function askTime(server: string, port = PORT, againMs = AGAIN_MS): Promise<string | undefined> {
  try {
    const found = await Promise.race([lookup(server), sleep(NAMED_MS, undefined, { ref: false })]);
    if (found === undefined) return "no name server answers";
    const { address, family } = found;
    return await ask(address, family === 6 ? "udp6" : "udp4", port, againMs);
  } catch (err) {
    return messageOf(err);
  }
}

function ask(
  address: string,
  family: "udp4" | "udp6",
  port: number,
  againMs: number,
): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = createSocket(family);
    const question = Buffer.alloc(LENGTH);
    question[0] = QUESTION;
    // What the client says of its own time comes back: an answer to somebody else's question is none.
    const mark = randomBytes(8);
    mark.copy(question, 40);
    let tries = 0;
    let timer: NodeJS.Timeout | undefined;
    let isOver = false;
    const end = (answer: string | undefined): void => {
      if (isOver) return;
      isOver = true;
      clearInterval(timer);
      socket.close();
      resolve(answer);
    };
    const send = (): void => {
      tries += 1;
      if (tries > TRIES) end("nobody answers");
      else socket.send(question);
    };
    socket.on("error", (err: NodeJS.ErrnoException) =>
      end(err.code === "ECONNREFUSED" ? "it refuses" : err.message),
    );
    socket.on("message", (reply) => {
      if (reply.length >= LENGTH && reply.subarray(24, 32).equals(mark)) end(problemOf(reply));
    });
    // Given to connect itself, it would be called when that fails too.
    socket.once("connect", () => {
      timer = setInterval(send, againMs);
      send();
    });
    socket.connect(port, address);
  });
}

function problemOf(reply: Buffer): string | undefined {
  const first = reply[0] ?? 0;
  const stratum = reply[1] ?? 0;
  if ((first & 7) !== MODE_OF_SERVERS) return "what answers is no time server";
  // Instead of the time it says in four letters why not: RATE, DENY.
  if (stratum === 0) return `it says ${reply.toString("latin1", 12, 16).replace(/[^A-Z]/g, "") || "nothing"}`;
  return first >> 6 === UNSYNCHRONISED || stratum > MAX_STRATUM
    ? "it does not know the time itself"
    : undefined;
}
