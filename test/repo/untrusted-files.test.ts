// Rules for files that guests and strangers can write. Each exception is here with its reason.
import { describe, expect, test } from "vitest";
import { isTest, read, sources } from "./source-tree.ts";

const agent = sources().filter(
  (path) => path.startsWith("packages/agent/src/") && !isTest(path) && !path.includes("/testing/"),
);
const using = (pattern: RegExp): string[] => agent.filter((path) => pattern.test(read(path)));

describe("images", () => {
  // Whoever opens an image does it confined, by ImageTools; these open none that was there before.
  const makers = [
    // an empty image for what a guest overwrites during its backup
    "packages/agent/src/infrastructure/backup/host-backup-tools.ts",
    // images built from Debian packages
    "packages/agent/src/infrastructure/images/debian/build-debian.ts",
    "packages/agent/src/infrastructure/images/tiny/build-tiny.ts",
    // tries io_uring on a file of its own
    "packages/agent/src/infrastructure/qemu/host-facts.ts",
    // new disks
    "packages/agent/src/infrastructure/storage/dir/qemu-img.ts",
  ];

  test("are opened by confined tools only", () => {
    expect(using(/[eE]xec\(\s*["'](?:qemu-(?:img|nbd|io|storage-daemon))["']/).toSorted()).toEqual(makers);
    const makes = read("packages/agent/src/infrastructure/storage/dir/qemu-img.ts");
    expect(makes.match(/#exec\(/g)).toHaveLength(1);
    expect(makes.match(/this\.#make\(\["(\w+)"/g)).toEqual(['this.#make(["create"', 'this.#make(["create"']);
  });
});
