import { describe } from "vitest";
import { FakeGuests } from "./fake-guests.ts";
import { guestProcessesConformance } from "./guest-processes-conformance.ts";

describe("made-up guests", () => {
  guestProcessesConformance(async () => {
    const processes = new FakeGuests();
    const start = (id: string) => ({ id, label: `guest ${id}`, program: "/bin/true", args: [], files: [] });
    return {
      processes,
      reopen: () => processes.reopened(),
      program: start,
      qemu: start,
      failing: (id, words) => ({ ...start(id), args: ["-fail", words] }),
      endAlone: async (guest) => processes.reopened().end(guest.id, "killed"),
      switchOff: async (guest) => processes.get(guest.id)?.end("shutdown"),
      clean: async () => undefined,
    };
  });
});
