// The first words of VNC (RFB 3.3 to 3.8), on both sides of a bridge: to the guest's server we answer with the password
// of the offer, to the viewer we are a server with a password of our own, or with none.
import { createCipheriv, randomBytes, timingSafeEqual } from "node:crypto";
import { AppError } from "@gpve/contracts/errors.ts";
import { ByteReader } from "@gpve/kit/byte-reader.ts";

type Send = (bytes: Uint8Array) => Promise<void>;

const VERSION = "RFB 003.008\n";
const NONE = 1;
const VNC_PASSWORD = 2;
const PASSWORD_CHARACTERS = 8;

/** What one side says: first its greeting, then all the rest. */
export function rfbReader(source: AsyncIterable<Uint8Array>): ByteReader {
  return new ByteReader(
    source,
    () => new AppError("node.unavailable", "the connection ended in its greeting"),
  );
}

/** We are the viewer. */
export async function greetServer(reader: ByteReader, send: Send, password: string): Promise<void> {
  const version = (await reader.take(VERSION.length)).toString("latin1");
  if (!version.startsWith("RFB ")) throw garbled("the guest's screen");
  await send(Buffer.from(VERSION));
  const count = (await reader.take(1))[0] ?? 0;
  const kinds = await reader.take(count);
  if (kinds.includes(VNC_PASSWORD)) {
    await send(Buffer.from([VNC_PASSWORD]));
    await send(respond(await reader.take(16), password));
  } else if (kinds.includes(NONE)) {
    await send(Buffer.from([NONE]));
  } else throw garbled("the guest's screen");
  if ((await reader.take(4)).readUInt32BE(0) !== 0)
    throw new AppError("auth.failed", "the guest's screen refused its own password");
}

/** We are the server. False when the viewer gave a wrong password, which it was told. */
export async function greetViewer(reader: ByteReader, send: Send, password?: string): Promise<boolean> {
  await send(Buffer.from(VERSION));
  const minor = /^RFB 003\.00([378])\n$/.exec((await reader.take(VERSION.length)).toString("latin1"))?.[1];
  if (minor === undefined) throw garbled("the viewer");
  const kind = password === undefined ? NONE : VNC_PASSWORD;
  if (minor === "3") await send(Buffer.from([0, 0, 0, kind]));
  else {
    await send(Buffer.from([1, kind]));
    if ((await reader.take(1))[0] !== kind) throw garbled("the viewer");
  }
  if (password === undefined) {
    if (minor === "8") await send(Buffer.alloc(4));
    return true;
  }
  const challenge = randomBytes(16);
  await send(challenge);
  const isRight = timingSafeEqual(await reader.take(16), respond(challenge, password));
  await send(Buffer.from([0, 0, 0, isRight ? 0 : 1]));
  if (!isRight && minor === "8") {
    const why = Buffer.from("wrong password");
    await send(Buffer.concat([Buffer.from([0, 0, 0, why.length]), why]));
  }
  return isRight;
}

/** DES by VNC's rules: the bits of every key byte are mirrored. Triple DES with one key thrice is DES. */
export function respond(challenge: Uint8Array, password: string): Buffer {
  const key = Buffer.alloc(8);
  key.write(password.slice(0, PASSWORD_CHARACTERS), "latin1");
  const mirrored = Buffer.from(key.map(mirror));
  const cipher = createCipheriv("des-ede3-ecb", Buffer.concat([mirrored, mirrored, mirrored]), null);
  cipher.setAutoPadding(false);
  return Buffer.concat([cipher.update(challenge), cipher.final()]);
}

function mirror(byte: number): number {
  let mirrored = 0;
  for (let bit = 0; bit < 8; bit++) mirrored |= ((byte >> bit) & 1) << (7 - bit);
  return mirrored;
}

function garbled(who: string): AppError {
  return new AppError("request.invalid", `${who} does not speak VNC`);
}
