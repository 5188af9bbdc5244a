import type { ApiError } from '../../runtime/index.ts';
import type { PartFinding } from './book-store-status.ts';

/** The API server will not have a child; its words say which and why. */
export const refused = (error: ApiError): PartFinding => ({
  reason: 'Refused',
  message: error.status.message ?? error.message,
});

/** A name is somebody else's; what to do about it. */
export const nameTaken = (kind: string, name: string, advice: string): PartFinding => ({
  reason: 'NameTaken',
  message: `a ${kind} named ${name} exists and is not this BookStore's: ${advice}`,
});
