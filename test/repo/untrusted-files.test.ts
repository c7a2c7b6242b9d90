// Rules for files that guests and strangers can write. Each exception is here with its reason.
import { basename } from "node:path";
import { describe, expect, test } from "vitest";
import { isTest, read, sources } from "./source-tree.ts";

const agent = sources().filter(
  (path) => path.startsWith("packages/agent/src/") && !isTest(path) && !path.includes("/testing/"),
);
const using = (pattern: RegExp): string[] => agent.filter((path) => pattern.test(read(path)));

describe("images", () => {
  // Whoever opens an image does it confined, by ImageTools; these open none that was there before.
  const makers = [
    // releases that their publisher's checksum vouches for
    "packages/agent/src/infrastructure/component/obtain-component.ts",
    // images built from Debian packages
    "packages/agent/src/infrastructure/images/debian/build-debian.ts",
    // packages that Debian signed
    "packages/agent/src/infrastructure/images/kernel-modules.ts",
    "packages/agent/src/infrastructure/images/memory-guest.ts",
    // tries io_uring on a file of its own
    "packages/agent/src/infrastructure/qemu/host-facts.ts",
    // packs volumes of pods, opens no archive
    "packages/agent/src/infrastructure/vcluster/backup/pack-archive.ts",
  ];

  const openers =
    /[eE]xec\(\s*["'](?:qemu-(?:img|nbd|io|storage-daemon)|lzop|bzip2|gzip|xz|zstd|tar|unzip|skopeo)["']/;

  test("are opened by confined tools only, and so are archives", () => {
    expect(using(openers).toSorted()).toEqual(makers);
  });

  // A program that is named elsewhere would not be seen above: who works on what strangers made starts none himself.
  test("are the business of those who start no programs", () => {
    const starting = using(/(?<![.\w])exec\(|this\.#exec\(|\bspawn\(/).filter((path) =>
      /\/(?:storage|backup|file-restore)\//.test(path),
    );
    expect(starting).toEqual([
      // hook scripts of an administrator
      "packages/agent/src/infrastructure/backup/host-backup-tools.ts",
      // mknod and the programs of LVM, which read nothing of what a volume holds
      "packages/agent/src/infrastructure/storage/lvm/device-nodes.ts",
      "packages/agent/src/infrastructure/storage/lvm/volume-group.ts",
      // mount, and what asks servers: they read nothing of what a volume holds
      "packages/agent/src/infrastructure/storage/mount/network-scans.ts",
      "packages/agent/src/infrastructure/storage/mount/server-folder.ts",
      // cp, which copies links as links and reads no format
      "packages/agent/src/infrastructure/vcluster/backup/etcd-copy.ts",
      // mv, which reads no format
      "packages/agent/src/infrastructure/vcluster/backup/move-folder.ts",
      // packs volumes of pods, opens no archive
      "packages/agent/src/infrastructure/vcluster/backup/pack-archive.ts",
      // du, which reads no file
      "packages/agent/src/infrastructure/vcluster/backup/volume-holes.ts",
    ]);
  });
});

describe("volumes", () => {
  // A volume is read by StoragePlugin.file or attach, which follow no link out of the storage. These want a name only.
  const namers = [
    // a volume to be made
    "fleecing-images",
    // an image to be put there
    "image-operations",
    // files to be put there
    "pull-oci",
    "receive-file",
    // a line of a log
    "remove-volume",
    "restore-volumes",
    // whether it is there
    "hookscript",
    // snippets, by a descriptor that follows no link
    "snippets",
    // names to be shown
    "import-metadata",
    "content-requests",
    // whether it is there
    "receive-requests",
    "restore-checks",
    "config-request",
  ];

  test("are read where a link leads nowhere else", () => {
    expect(
      using(/\b(?:plugin(?:\([^)]*\))?|storage|target|source)\s*\.path\(/)
        .map((path) => basename(path, ".ts"))
        .toSorted(),
    ).toEqual(namers.toSorted());
  });
});

describe("folders that a guest's user can write", () => {
  test("see owners and modes changed by descriptor only, so that root follows no link there", () => {
    expect(
      using(/import\s*\{[^}]*\b(?:l?chown|l?chmod|chownSync|chmodSync)\b[^}]*\}\s*from "node:fs/),
    ).toEqual([]);
    expect(using(/\bfs\.(?:l?chown|l?chmod)/)).toEqual([]);
  });

  test("see sockets connected to by descriptor only", () => {
    expect(
      using(/import\s*\{[^}]*\b(?:connect|createConnection|Socket as)\b[^}]*\}\s*from "node:net"/),
    ).toEqual([
      // in a process that is not root, and sees no folder but that of these sockets
      "packages/agent/src/infrastructure/vcluster/line/line-end.ts",
      // in a process that is not root, to an address and port that the agent names: never to a path
      "packages/agent/src/infrastructure/vcluster/proxy/endpoint-proxy.ts",
    ]);
  });

  // Whoever names such a folder and reads or writes files by path must not do it there.
  const careful = [
    // makes the folder, and removes it when nobody is left who could write to it
    "packages/agent/src/infrastructure/guest-process/guest-folder.ts",
    // looks at programs, libraries and files to be mounted
    "packages/agent/src/infrastructure/guest-process/guest-view.ts",
    // fills a new folder before it is given to the guest
    "packages/agent/src/infrastructure/guest-process/supervised-guests.ts",
  ];

  test("see no files opened by path", () => {
    const naming = agent.filter((path) => /\bioFolder\b|\bfolder\.io\b|\bthis\.io\b/.test(read(path)));
    const opening = naming.filter((path) => /from "node:fs(?:\/promises)?"/.test(read(path)));
    expect(opening.toSorted()).toEqual(careful.toSorted());
  });
});
