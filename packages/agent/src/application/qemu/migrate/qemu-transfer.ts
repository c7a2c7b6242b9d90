// What a QEMU can do to send or take RAM by several connections, and telling it to.
import {
  ramCompressions,
  type RamCompression,
  type RamTransfer,
  type TransferAbilities,
} from "@gpve/domain/vm/migrate/ram-transfer.ts";
import type { Qmp } from "@gpve/domain/vm/qmp/qmp.ts";
import { isQmpRefusal } from "@gpve/domain/vm/qmp/qmp-errors.ts";
import { ignore } from "@gpve/kit/background.ts";

/** Which ways to compress it was built with, it only says when it is told to. */
export async function transferAbilities(qmp: Qmp): Promise<TransferAbilities> {
  const capabilities = await qmp.execute("query-migrate-capabilities");
  const multifd = capabilities.some(({ capability }) => capability === "multifd");
  if (!multifd) return { multifd, compressions: [] };
  const compressions: RamCompression[] = [];
  for (const compression of ramCompressions)
    if (await accepts(qmp, compression)) compressions.push(compression);
  return { multifd, compressions };
}

/** Also where it is as it always is: a QEMU that came in one way may leave in another. */
export async function setTransfer(qmp: Qmp, transfer: RamTransfer | undefined): Promise<void> {
  if (transfer !== undefined) {
    const { channels, compression = "none" } = transfer;
    const parameters = { "multifd-channels": channels, "multifd-compression": compression };
    await qmp.execute("migrate-set-parameters", parameters);
  }
  await qmp.execute("migrate-set-capabilities", {
    capabilities: [{ capability: "multifd", state: transfer !== undefined }],
  });
}

async function accepts(qmp: Qmp, compression: RamCompression): Promise<boolean> {
  try {
    await qmp.execute("migrate-set-parameters", { "multifd-compression": compression });
    return true;
  } catch (err) {
    if (!isQmpRefusal(err)) throw err;
    ignore(err, "it was built without");
    return false;
  }
}
