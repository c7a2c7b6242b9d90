// What a suite needs inside a Debian guest, as one tar archive that is a disk of the guest: it unpacks the device. The guest
// needs no network for it, and nothing is installed on this host.
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, realpathSync } from "node:fs";
import { basename, join } from "node:path";
import { build } from "esbuild";
import { DebianPackages } from "@gpve/agent/infrastructure/images/debian-packages.ts";
import { supervisorBinary } from "@gpve/agent/infrastructure/supervisor/build.ts";
import { exec } from "@gpve/kit/exec.ts";
import { nodeBinary, root } from "../gpve.ts";

export interface GuestArchive {
  /** TypeScript that runs in the guest; what it imports comes with it. */
  readonly entry: string;
  /** Debian packages that are unpacked there. */
  readonly packages: readonly string[];
  /** Programs of this host that go with it, with their libraries. */
  readonly programs: readonly string[];
}

/** Where things are in the guest. */
export const inGuest = {
  node: "/opt/gpve/node",
  suite: "/opt/gpve/suite.cjs",
  supervisor: "/opt/gpve/gpve-supervisor",
} as const;

/** What confined programs see, too. */
const LIBRARIES = "usr/lib/x86_64-linux-gnu";

/** Returns the archive's file. Guest and host are the same release of Debian: the product builds it so. */
export async function makeGuestArchive(folder: string, archive: GuestArchive): Promise<string> {
  const tree = join(folder, "tree");
  await new DebianPackages(exec).unpack(archive.packages, join(folder, "debs"), tree);
  const put = (from: string, to: string): void => cpSync(realpathSync(from), join(tree, to));
  for (const each of ["opt/gpve", LIBRARIES, "usr/bin"]) mkdirSync(join(tree, each), { recursive: true });
  put(nodeBinary, inGuest.node);
  put(
    await supervisorBinary({
      sourceFolder: join(root, "packages/supervisor"),
      cacheFolder: join(root, ".cache"),
    }),
    inGuest.supervisor,
  );
  for (const program of archive.programs) put(program, join("usr/bin", basename(program)));
  for (const library of await libraries([nodeBinary, ...archive.programs, ...programsIn(tree)]))
    put(library, join(LIBRARIES, basename(library)));
  await build({
    entryPoints: [archive.entry],
    outfile: join(tree, inGuest.suite),
    bundle: true,
    platform: "node",
    format: "cjs",
    target: "node24",
    logLevel: "error",
    // Names paths of the sources, which are not there.
    define: { "import.meta.dirname": '"/opt/gpve"', "import.meta.url": '"file:///opt/gpve/suite.cjs"' },
    alias: { vitest: join(import.meta.dirname, "small-vitest.ts") },
  });
  const file = join(folder, "guest.tar");
  await exec("tar", ["-cf", file, "--owner=0", "--group=0", "-C", tree, "."]);
  return file;
}

function programsIn(tree: string): string[] {
  const folders = ["sbin", "usr/sbin", "bin", "usr/bin"].map((each) => join(tree, each)).filter(existsSync);
  return folders
    .flatMap((folder) => readdirSync(folder, { withFileTypes: true }))
    .filter((entry) => entry.isFile())
    .map(({ parentPath, name }) => join(parentPath, name))
    .filter((path) => readFileSync(path).toString("latin1", 1, 4) === "ELF");
}

/** What this host loads for programs, but for the C library, which the guest has. What is in the archive is not found here. */
async function libraries(programs: readonly string[]): Promise<ReadonlySet<string>> {
  const found = new Set<string>();
  for (const program of programs) {
    const { stdout } = await exec("ldd", [realpathSync(program)], { okCodes: [0, 1] });
    for (const [, path = ""] of stdout.matchAll(/=> (\/\S+)/g))
      if (!/^(?:libc|libm|libdl|librt|libpthread|ld-linux)[.-]/.test(basename(path))) found.add(path);
  }
  return found;
}
