import type { QemuProcess } from "../qemu-processes.ts";

/** The way of a guest's RAM between its QEMU and a file. */
export interface RamStreams {
  /** Listens for the guest; what it sends becomes the content of the file. */
  receive(process: QemuProcess, file: string): Promise<RamReceiver>;
  /** Sends a file to a socket that the guest serves; ends when the guest has read enough of it. */
  send(process: QemuProcess, socket: string, file: string, signal: AbortSignal): Promise<void>;
}

export interface RamReceiver {
  /** For QMP `migrate`. */
  readonly uri: string;
  /** Everything is in the file, and safe there. Rejects when the file cannot be written. */
  readonly written: Promise<void>;
  close(): Promise<void>;
}
