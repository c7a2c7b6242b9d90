import { journalConformance } from "../testing/journal-conformance.ts";
import { JournalDisk, MemoryJournal } from "../testing/memory-journal.ts";

journalConformance("memory", async () => {
  const disk = new JournalDisk();
  return { another: () => new MemoryJournal(disk), close: () => Promise.resolve() };
});
