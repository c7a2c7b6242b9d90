// A real sshd on loopback for tests: an ordinary user's, which only passes connections on. Debian's, or its package
// unpacked where it is not installed: an installed one would start by itself.
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { connect, createServer, type AddressInfo } from "node:net";
import { join } from "node:path";
import { exec, MINIMAL_ENV } from "@gpve/kit/exec.ts";
import { startChild } from "@gpve/kit/testing/child.ts";

export interface Sshd {
  readonly port: number;
  readonly user: string;
  /** Of the only user that it lets in. */
  readonly identityFile: string;
  /** Its own key, as known_hosts has it. */
  readonly knownHosts: string;
  stop(): Promise<void>;
}

const INSTALLED = "/usr/sbin/sshd";
/** The library is not on every Debian. */
const PACKAGES = ["openssh-server", "libwrap0"];
/** Known to this sshd alone, and not locked. */
const USER = "jumper";
const UID = "54321";
/** Nothing of it comes from elsewhere: files and arguments are its parameters. */
const SCRIPT =
  'mount --bind "$0" /etc/passwd && exec setpriv --reuid "$1" --regid "$1" --clear-groups "${@:2}"';

/** undefined: it can be had. */
export const sshdLacks = (): string | undefined =>
  process.getuid?.() !== 0
    ? "needs root"
    : !existsSync("/usr/bin/ssh")
      ? "needs ssh: apt-get install openssh-client"
      : undefined;

/** `folder`: anybody may read it, nobody else writes there. */
export async function startSshd(folder: string): Promise<Sshd> {
  const { program, libraries } = await sshdProgram(join(folder, "packages"));
  for (const name of ["host", "user"])
    await exec("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", join(folder, name)]);
  const port = await freePort();
  const config = join(folder, "sshd_config");
  writeFileSync(
    config,
    [
      "ListenAddress 127.0.0.1",
      `Port ${port}`,
      `HostKey ${join(folder, "host")}`,
      `AuthorizedKeysFile ${join(folder, "user.pub")}`,
      "StrictModes no",
      "UsePAM no",
      "PidFile none",
      "PasswordAuthentication no",
      "AllowTcpForwarding local",
    ].join("\n"),
  );
  await exec("chown", [UID, join(folder, "host")]);
  const users = join(folder, "passwd");
  const own = `${USER}:*:${UID}:${UID}::/nonexistent:/bin/sh\n`;
  writeFileSync(users, readFileSync("/etc/passwd", "utf8") + own, { mode: 0o644 });
  chmodSync(folder, 0o755);
  const words = ["--mount", "bash", "-c", SCRIPT, users, UID, program, "-D", "-e", "-f", config];
  const child = startChild("unshare", words, {
    env: { ...MINIMAL_ENV, LD_LIBRARY_PATH: libraries },
  });
  await untilOpen(port);
  const key = readFileSync(join(folder, "host.pub"), "utf8").split(" ").slice(0, 2).join(" ");
  const knownHosts = join(folder, "known_hosts");
  writeFileSync(knownHosts, `[127.0.0.1]:${port} ${key}\n`);
  return {
    port,
    user: USER,
    identityFile: join(folder, "user"),
    knownHosts,
    stop: async () => {
      child.signal("SIGTERM");
      await child.exited;
    },
  };
}

async function sshdProgram(folder: string): Promise<{ program: string; libraries: string }> {
  if (existsSync(INSTALLED)) return { program: INSTALLED, libraries: "" };
  mkdirSync(folder, { recursive: true });
  await exec("apt-get", ["download", ...PACKAGES], { cwd: folder, timeoutMs: 120_000 });
  for (const file of readdirSync(folder).filter((name) => name.endsWith(".deb")))
    await exec("dpkg", ["-x", file, "."], { cwd: folder });
  const libraries = readdirSync(join(folder, "usr/lib"))
    .filter((name) => name.includes("-linux-"))
    .map((name) => join(folder, "usr/lib", name));
  return { program: join(folder, "usr/sbin/sshd"), libraries: libraries.join(":") };
}

async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((done) => server.listen(0, "127.0.0.1", done));
  const { port } = server.address() as AddressInfo;
  await new Promise((done) => server.close(done));
  return port;
}

async function untilOpen(port: number): Promise<void> {
  for (const until = performance.now() + 30_000; performance.now() < until;) {
    const isOpen = await new Promise<boolean>((done) => {
      const socket = connect(port, "127.0.0.1", () => done(true));
      socket.on("error", () => done(false));
      socket.on("connect", () => socket.destroy());
    });
    if (isOpen) return;
    await new Promise((done) => setTimeout(done, 50));
  }
  throw new Error(`sshd does not listen on ${port}`);
}
