// What a VM made from an image gets without being asked: a disk of the image, a network card where there is a bridge,
// a serial port to reach it by, and a cloud-init drive that lets its owner in.
import { readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { given } from "@gpve/contracts/given.ts";
import type { GpveClient } from "@gpve/client/client.ts";
import { isObject } from "@gpve/client/response-error.ts";
import { AppError } from "@gpve/contracts/errors.ts";
import type { Cli } from "../../command.ts";
import type { Input } from "../../input.ts";
import { readSecretLine } from "../../secret-input.ts";
import type { ImageSource } from "./image-source.ts";

type Settings = Readonly<Record<string, string>>;

/** Where it is made, and what its cards are on where nobody says. */
interface Place {
  readonly node: string;
  readonly storage: string;
  readonly bridge: string | undefined;
}

const PUBLIC_KEY = /^(?:ssh-|ecdsa-|sk-)\S+ \S+/;
const USUAL_KEYS = ["id_ed25519.pub", "id_ecdsa.pub", "id_rsa.pub"];

export async function guestFromImage(
  cli: Cli,
  input: Input,
  made: Place & { readonly image: ImageSource },
): Promise<Settings> {
  const { image, storage } = made;
  const client = await cli.client();
  const bridge = await bridgeFor(cli, client, made, input.text("bridge"));
  const format = (await keepsFiles(client, made)) ? ",format=qcow2" : "";
  const login = await loginSettings(cli, input, image);
  const wantsDrive = image.hasCloudInit || Object.keys(login).length > 0;
  return {
    ostype: "l26",
    scsihw: "virtio-scsi-single",
    scsi0: `${storage}:0,import-from=${image.volume}${format},discard=on,iothread=1`,
    boot: "order=scsi0",
    serial0: "socket",
    agent: "1",
    ...(bridge === undefined ? {} : { net0: `virtio,bridge=${bridge}` }),
    ...(wantsDrive ? { ide2: `${storage}:cloudinit`, ...login } : {}),
    ...(wantsDrive && bridge !== undefined ? { ipconfig0: "ip=dhcp" } : {}),
  };
}

/** A VM to install something on has a disk that knows snapshots, and a network card; a bare one has what was asked for. */
export async function emptyGuest(cli: Cli, input: Input, made: Place): Promise<Settings> {
  const client = await cli.client();
  const disk = input.number("disk");
  const wanted = input.text("bridge");
  const isBare = disk === undefined && input.text("iso") === undefined && wanted === undefined;
  const bridge = isBare ? undefined : await bridgeFor(cli, client, made, wanted);
  const format = disk !== undefined && (await keepsFiles(client, made)) ? ",format=qcow2" : "";
  return {
    ...(disk === undefined
      ? {}
      : { scsihw: "virtio-scsi-single", scsi0: `${made.storage}:${disk}${format},iothread=1` }),
    ...(bridge === undefined ? {} : { net0: `virtio,bridge=${bridge}` }),
  };
}

/** Where disks are files they should be qcow2: others know no snapshots. */
async function keepsFiles(
  client: GpveClient,
  { node, storage }: { readonly node: string; readonly storage: string },
): Promise<boolean> {
  const status = await client.pve.get("/nodes/{node}/storage/{storage}/status", { node, storage });
  return isObject(status) && ["dir", "nfs", "cifs", "btrfs"].includes(String(status["type"]));
}

/** The bridge asked for, the node's default, vmbr0, or the only one there is. */
async function bridgeFor(
  cli: Cli,
  client: GpveClient,
  { node, bridge }: Place,
  wanted = bridge,
): Promise<string | undefined> {
  if (wanted !== undefined) return wanted === "none" ? undefined : wanted;
  const rows = await client.pve.list("/nodes/{node}/network", { node, type: "any_bridge" });
  const names = rows.map((row) => String(row["iface"]));
  if (names.includes("vmbr0")) return "vmbr0";
  if (await lacksTaps(client, node)) {
    cli.out.note("No taps on this node (they need root): its card on vmbr0 gets a user-mode network.");
    return "vmbr0";
  }
  const found = names.length === 1 ? names[0] : undefined;
  if (found === undefined) {
    const which = names.length === 0 ? "there is no bridge" : `which of ${names.join(", ")} is yours to say`;
    cli.out.note(`Without a network card: ${which} (--bridge NAME).`);
  }
  return found;
}

/** Where cards have user-mode networks, whatever bridge they name. */
async function lacksTaps(client: GpveClient, node: string): Promise<boolean> {
  const answer = await client.v1
    .raw("GET", `nodes/${encodeURIComponent(node)}/capabilities`)
    .catch((): unknown => undefined);
  const list = isObject(answer) ? answer["capabilities"] : undefined;
  const found = Array.isArray(list) ? (list as readonly unknown[]).filter(isObject) : [];
  return found.some(({ name, available }) => name === "tap" && available === false);
}

async function loginSettings(cli: Cli, input: Input, image: ImageSource): Promise<Settings> {
  const keys = await sshKeys(cli, input, image);
  const password = input.flag("passwordStdin") ? await readSecretLine(cli, "password") : undefined;
  if (keys === undefined && password === undefined && image.hasCloudInit && !image.isOpen) {
    cli.out.note(
      "Nobody will be able to log in to this guest: give it a key (--ssh-key FILE) or a password (--password-stdin).",
    );
  }
  return given({
    ciuser: input.text("user"),
    cipassword: password,
    // Proxmox wants the keys percent-encoded inside the already encoded form.
    sshkeys: keys === undefined ? undefined : encodeURIComponent(keys),
  }) as Settings;
}

/** Keys given as files or as they are; without any, the usual ones of whoever asks. */
async function sshKeys(cli: Cli, input: Input, image: ImageSource): Promise<string | undefined> {
  const wanted = input.texts("sshKey");
  const keys: string[] = [];
  for (const text of wanted) {
    keys.push(PUBLIC_KEY.test(text) ? text.trim() : await keyFile(resolve(cli.io.cwd, text)));
  }
  if (wanted.length > 0) return keys.join("\n");
  if (!image.hasCloudInit) return undefined;
  for (const name of USUAL_KEYS) {
    const path = join(cli.io.homeDir, ".ssh", name);
    const text = await readFile(path, "utf8").catch(() => "");
    if (!PUBLIC_KEY.test(text)) continue;
    cli.out.note(`Your key ${path} will open it.`);
    return text.trim();
  }
  return undefined;
}

async function keyFile(path: string): Promise<string> {
  const text = await readFile(path, "utf8").catch((cause: unknown) => {
    throw new AppError("object.not_found", `cannot read the key ${path}`, {
      cause,
      data: { next: "Name a public key file, such as ~/.ssh/id_ed25519.pub." },
    });
  });
  if (PUBLIC_KEY.test(text)) return text.trim();
  throw new AppError("request.invalid", `${path} is not a public SSH key`, {
    data: { next: "Name the public half, which ends in .pub." },
  });
}
