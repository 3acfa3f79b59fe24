package store

import (
	"errors"
	"net"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/aws/smithy-go"
	"gocloud.dev/gcerrors"
	"golang.org/x/oauth2"
	"google.golang.org/api/googleapi"
)

// codeOf is gcerrors.Code, except for errors that the drivers mistake for a missing blob, so that a caller
// would believe that a result does not exist. The driver of S3 does so for a missing bucket and for each
// error whose text contains 301, including a refused connection to port 13010. That of GCS does so for
// refused credentials, and that of Azure for a missing container and an unresolved host.
func codeOf(err error) gcerrors.ErrorCode {
	var (
		s3      smithy.APIError
		s3Call  *smithy.OperationError
		gcs     *googleapi.Error
		azure   *azcore.ResponseError
		token   *oauth2.RetrieveError
		network *net.OpError
	)
	switch {
	case errors.As(err, &s3):
		return codeOfS3(s3.ErrorCode())
	case errors.As(err, &s3Call):
		return gcerrors.Unknown
	case errors.As(err, &gcs):
		return codeOfStatus(gcs.Code)
	case errors.As(err, &azure):
		return codeOfAzure(azure)
	case errors.As(err, &token) && token.Response != nil:
		return codeOfToken(token.Response.StatusCode)
	case errors.As(err, &network):
		return gcerrors.Unknown
	}

	return gcerrors.Code(err)
}

func codeOfS3(code string) gcerrors.ErrorCode {
	switch code {
	case "NoSuchKey", "NotFound": // the latter answers a HEAD
		return gcerrors.NotFound
	case "AccessDenied",
		"Forbidden",
		"InvalidAccessKeyId",
		"SignatureDoesNotMatch",
		"ExpiredToken",
		"InvalidToken",
		"TokenRefreshRequired":
		return gcerrors.PermissionDenied
	default:
		return gcerrors.Unknown
	}
}

func codeOfStatus(status int) gcerrors.ErrorCode {
	switch status {
	case http.StatusNotFound:
		return gcerrors.NotFound
	case http.StatusUnauthorized, http.StatusForbidden:
		return gcerrors.PermissionDenied
	default:
		return gcerrors.Unknown
	}
}

// codeOfAzure takes a 404 for a missing blob only if it says so.
func codeOfAzure(err *azcore.ResponseError) gcerrors.ErrorCode {
	code := codeOfStatus(err.StatusCode)
	if code == gcerrors.NotFound && err.ErrorCode != "BlobNotFound" {
		return gcerrors.Unknown
	}

	return code
}

// codeOfToken classifies an answer to a request for a token: a 400 refuses the key that signed it.
func codeOfToken(status int) gcerrors.ErrorCode {
	if status == http.StatusBadRequest {
		return gcerrors.PermissionDenied
	}

	return codeOfStatus(status)
}

// missingBucket reports whether the error of a write means that the bucket does not exist.
func missingBucket(err error) bool {
	var (
		s3    smithy.APIError
		gcs   *googleapi.Error
		azure *azcore.ResponseError
	)
	switch {
	case errors.As(err, &s3):
		return s3.ErrorCode() == "NoSuchBucket" || s3.ErrorCode() == "InvalidBucketName"
	case errors.As(err, &gcs):
		return gcs.Code == http.StatusNotFound
	case errors.As(err, &azure):
		return azure.ErrorCode == "ContainerNotFound"
	}

	return false
}
