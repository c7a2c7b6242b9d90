import type { HostFiles } from "./host-files.ts";

const PAGE_BYTES = 4096;

/** Bytes that guests share because the kernel found them to be the same. */
export async function ksmShared(files: Pick<HostFiles, "read">): Promise<number> {
  return Number((await files.read("/sys/kernel/mm/ksm/pages_sharing")) ?? 0) * PAGE_BYTES;
}
