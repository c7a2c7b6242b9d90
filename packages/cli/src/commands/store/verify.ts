import { resolve } from "node:path";
import { AppError } from "@gpve/contracts/errors.ts";
import type { CommandSpec } from "../../command.ts";
import { dataPlace, requireStoreFile, withDataDir } from "./place.ts";

export const storeVerify: CommandSpec = {
  name: "store verify",
  summary: "check a backup file, or the store of a stopped gpve",
  arguments: [{ name: "[file]", about: "a backup file; without it the store of --data DIR" }],
  examples: ["store verify gpve.backup", "store verify --data /var/lib/gpve"],
  doing: (input) => `vouch for ${input.optionalArg("file") ?? "the store"}`,
  run: async (cli, input) => {
    const { verifyBackup } = await import("@gpve/store/backup/backup.ts");
    const file = input.optionalArg("file");
    if (file !== undefined) {
      const info = await verifyBackup(resolve(cli.io.cwd, file));
      if (cli.out.forPeople) cli.out.done(`${file} is whole: ${info.count} keys of ${info.createdAt}.`);
      else cli.out.data(info);
      return;
    }
    const place = dataPlace(cli);
    const report = await withDataDir(place, async () => {
      requireStoreFile(place);
      const { verifySqlite } = await import("@gpve/store/backup/verify-sqlite.ts");
      return verifySqlite(place.storeFile);
    });
    if (!cli.out.forPeople) cli.out.data(report);
    for (const problem of report.problems) cli.out.note(problem);
    if (report.problems.length > 0) {
      throw new AppError("operation.failed", `${place.storeFile} has ${report.problems.length} problems`, {
        data: { next: "Restore it from a backup: gpvectl store restore FILE --replace." },
      });
    }
    cli.out.done(`${place.storeFile} is sound: ${report.keys} keys at revision ${report.revision}.`);
  },
};
