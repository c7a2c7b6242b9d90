// Which etcd ours is measured beside: the one that virtual clusters get, or else Debian's.
import { existsSync } from "node:fs";
import { join } from "node:path";
import { exec } from "../../packages/kit/src/exec.ts";
import { cachedVersions, components } from "../../test/support/vclusters.ts";

export async function etcdProgram(): Promise<{ readonly program: string; readonly version: string }> {
  const [cached] = cachedVersions("etcd");
  const program = cached === undefined ? "/usr/bin/etcd" : join(components, "etcd", cached, "etcd");
  if (!existsSync(program))
    throw new Error(
      "no etcd to compare with: gpvectl component install etcd, or apt-get install etcd-server",
    );
  const { stdout } = await exec(program, ["--version"], { timeoutMs: 10_000 });
  return { program, version: /etcd Version: (\S+)/.exec(stdout)?.[1] ?? "of unknown version" };
}
