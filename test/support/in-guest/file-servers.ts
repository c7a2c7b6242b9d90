// Real servers of files inside a Debian guest, as root: Linux' own NFS server and Samba, each with one folder.
import { appendFileSync, mkdirSync, writeFileSync } from "node:fs";
import { setTimeout as sleep } from "node:timers/promises";
import { exec } from "@gpve/kit/exec.ts";

/** Where what clients see lies on the server itself. */
export const NFS_FOLDER = "/srv/nfs";
export const SHARE_FOLDER = "/srv/share";
export const SHARE = "vms";
export const SHARE_USER = "joe";
export const SHARE_PASSWORD = "pa, ss'wörd";

const SAMBA = "/srv/samba";
/** Seconds; new files wait for both after a start, and a client that is lost keeps its locks for one. */
const NFS_LEASE = "10";

export async function startFileServers(): Promise<void> {
  for (const module of ["nfsd", "nfsv4", "cifs", "veth", "bridge"]) await exec("modprobe", [module]);
  await startNfs();
  await startSamba();
}

async function startNfs(): Promise<void> {
  for (const each of [NFS_FOLDER, "/var/lib/nfs/v4recovery", "/var/lib/nfs/sm", "/run/rpc_pipefs"])
    mkdirSync(each, { recursive: true });
  for (const file of ["etab", "rmtab", "xtab"]) writeFileSync(`/var/lib/nfs/${file}`, "");
  writeFileSync("/etc/exports", `${NFS_FOLDER} *(rw,no_root_squash,no_subtree_check,fsid=7)\n`);
  await exec("mount", ["-t", "nfsd", "nfsd", "/proc/fs/nfsd"], { okCodes: [0, 32] });
  await exec("exportfs", ["-ra"]);
  await exec("rpc.mountd", ["-N", "3"]);
  await exec("rpc.nfsd", ["-N", "3", "-G", NFS_LEASE, "-L", NFS_LEASE, "8"]);
}

async function startSamba(): Promise<void> {
  for (const each of ["private", "lock", "state", "cache", "pid", "ncalrpc", "log"])
    mkdirSync(`${SAMBA}/${each}`, { recursive: true, mode: 0o755 });
  mkdirSync(SHARE_FOLDER, { recursive: true, mode: 0o777 });
  mkdirSync("/etc/samba", { recursive: true });
  appendFileSync("/etc/passwd", `${SHARE_USER}:x:1999:1999::/nonexistent:/usr/sbin/nologin\n`);
  appendFileSync("/etc/group", `${SHARE_USER}:x:1999:\n`);
  await exec("chown", [`${SHARE_USER}:`, SHARE_FOLDER]);
  const settings = {
    "server role": "standalone server",
    "smb ports": "445",
    "disable netbios": "yes",
    "load printers": "no",
    printing: "bsd",
    "printcap name": "/dev/null",
    "obey pam restrictions": "no",
    "private dir": `${SAMBA}/private`,
    "lock directory": `${SAMBA}/lock`,
    "state directory": `${SAMBA}/state`,
    "cache directory": `${SAMBA}/cache`,
    "pid directory": `${SAMBA}/pid`,
    "ncalrpc dir": `${SAMBA}/ncalrpc`,
    "log file": `${SAMBA}/log/smbd`,
  };
  const text = Object.entries(settings).map(([key, value]) => `  ${key} = ${value}`);
  writeFileSync(
    "/etc/samba/smb.conf",
    `[global]\n${text.join("\n")}\n[${SHARE}]\n  path = ${SHARE_FOLDER}\n  read only = no\n`,
  );
  await exec("smbpasswd", ["-a", "-s", SHARE_USER], { input: `${SHARE_PASSWORD}\n${SHARE_PASSWORD}\n` });
  await exec("smbd", ["--daemon"]);
  // It is in the background before it listens.
  for (let tries = 0; tries < 300; tries++) {
    const { stdout } = await exec("ss", ["-Hltn", "sport", "=", ":445"]);
    if (stdout.trim() !== "") return;
    await sleep(200);
  }
  throw new Error("smbd does not listen");
}

/** What the servers say does not reach `address` any more: who asks waits. */
export async function fallSilent(address: string): Promise<void> {
  await exec("ip", ["route", "add", "blackhole", `${address}/32`]);
}

export async function speakAgain(address: string): Promise<void> {
  await exec("ip", ["route", "del", "blackhole", `${address}/32`]);
}
